"""The paper's five studies as cells: pure functions of a key, stored, resumed, and drawn from what is stored."""
