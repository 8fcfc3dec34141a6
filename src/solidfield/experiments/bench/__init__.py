"""Studies: schemes trained side by side on equal budgets and measured against what is known exactly."""
