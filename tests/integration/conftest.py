"""Fixtures that start real services."""

from tests.integration.slurm_cluster import slurm_cluster

__all__ = ["slurm_cluster"]
