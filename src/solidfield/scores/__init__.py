"""From arrays to numbers: CRPS and friends, reliability, error bars by resampling."""
