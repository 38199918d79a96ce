"""Many nodes that ought to be equal: which is odd, and in which parameter.

`reading` takes result files, `examine` judges one parameter over all nodes, `comparison` puts it together. `run`
measures nodes by ssh, Slurm or Dask, into the folder of a plan (`reading`).
"""
