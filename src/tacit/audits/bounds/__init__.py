"""Estimators: from counts at a threshold to a lower bound on epsilon, and the searches behind them."""
