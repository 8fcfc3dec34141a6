"""From sparse frames to questions: readings stored once, and an index that says what each question may know."""
