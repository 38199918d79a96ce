"""Many nodes that ought to be equal: which is odd, and in which parameter.

`reading` takes result files, `columns` keeps what they say by parameter, `examine` judges one parameter over all nodes,
`comparison` puts it together. `engine` measures nodes on a Dask cluster, which `launch` starts where there is none.
"""
