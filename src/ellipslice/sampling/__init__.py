"""Running chains: `sample`, `resume` and `join`.

- `sample`: run moves on a posterior and return the draws
- `resume`: continue a run from its store
- `join`: combine runs that shared the chains
- `arguments`: checks of what users give
- `start`: initial states
- `likelihood_checks`: mistakes that raise no error and give wrong answers
- `drive`: advance the chains until the run ends
- `report`: attributes of the result, and warnings at the end
- `sinks`: what collects the rows of a run, and draws in memory
- `keep`: what is stored of each state
- `traces`: traces of a few quantities, and their diagnostics
- `until`: stopping rules
- `progress`: the progress display
- `interrupt`: Ctrl-C
- `result`: the DataTree
"""

from ellipslice.sampling.join import join
from ellipslice.sampling.resume import resume
from ellipslice.sampling.sample import sample
from ellipslice.sampling.until import Until

__all__ = ["Until", "join", "resume", "sample"]
