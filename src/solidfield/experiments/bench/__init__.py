"""Experiments on worlds that are known exactly and on real data: schemes and rivals side by side, on equal budgets."""
