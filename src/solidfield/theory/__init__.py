"""The mathematics: levels and objectives of the diffusion, laws, copula, covariances, interpolation, distance."""
