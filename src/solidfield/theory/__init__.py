"""The mathematics: levels and objectives of diffusion, laws, copula, covariances, conditioning, interpolation."""
