"""Experiments against what is known, on real data, and after the paper; the rest of the library never imports them.

    cell.py       a frozen cell with a key, and an experiment: which cells there are, and how they are shown
    store.py      results/, one sealed JSON a cell with command, seed, commit, versions and date
    runner.py     runs what is not stored, here, in processes or on a Dask cluster
    trainer.py    the one trainer; schemes.py: what is trained side by side
    pages.py      docs/ from stored results alone
    registry.py   the list of experiments
    costs.py      what every model costs
    bench/        a file for each verb: worlds with a closed form, turbulence, real data, peers
    studies/      the paper's five studies
    datasets/     public data sets in their layout on disk

To add an experiment, write one file in `bench/` with
- a frozen `Cell`: its fields are all that decides a result, `WORDS` names those that its key shows, and
  `measure(place, progress)` returns the result as plain values,
- a function that returns cells, whose parameters `Annotated[type, "help"] = default` become options of the verb,
- a function from stored results to tables (on real data: take `RealCell`, `tables` and `verdicts` as Kolkata does; on
  worlds with a closed form: `measured` and `compare` of `bench/exact.py`),
and list its `EXPERIMENT` in `registry.py`. `solid bench NAME` then runs, resumes, lists and stores it, and a page
shows it between `<!-- part NAME -->` and `<!-- end -->`.
"""
