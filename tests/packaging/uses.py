"""A small use of the bare package and of every extra, run in an environment that has nothing else."""

from __future__ import annotations

BARE = """
import numpy as np, jax.numpy as jnp
import ellipslice as es
tree = es.sample(lambda f: -jnp.sum((f - 1.0) ** 2), es.Diagonal(np.ones(3)), draws=100, seed=1, progress=False)
assert tree.posterior.f.shape == (4, 100, 3)
tree.to_netcdf("draws.nc")
es.diagnostics.check_convergence(tree)
"""

TABLE = """
import numpy as np, pandas as pd
x = np.linspace(0, 5, 15)
frame = pd.DataFrame({"time": x, "count": np.random.default_rng(1).poisson(np.exp(np.sin(x)))})
"""

FIT = """
import subprocess, sys
def ellipslice(*arguments):
    subprocess.run([sys.executable, "-m", "ellipslice", *map(str, arguments)], check=True)
short = ("--likelihood", "poisson", "--amplitude", 1, "--length-scale", 1, "--draws", 40, "--warmup", 10, "--quiet")
"""

USES: dict[str, str] = {
    "plots": """
import subprocess, sys
from pathlib import Path
arguments = ["demo", "--draws", "50", "--warmup", "20", "--thin", "1", "--out", "coal"]
subprocess.run([sys.executable, "-m", "ellipslice", *arguments], check=True)
assert Path("coal/coal_intensity.png").read_bytes().startswith(b"\\x89PNG")
""",
    "gp": """
import numpy as np
from numpyro.distributions import LogNormal
from tinygp import kernels
import ellipslice as es
x, y = np.arange(6.0), np.array([2, 3, 1, 0, 1, 4])
model = es.gp.LatentGP(kernels.ExpSquared(1.5), es.likelihoods.Poisson)
assert model.fit(x, y, draws=50, seed=1, progress=False).predict([2.5]).latent.shape[2] == 1
es.gp.LatentGP(lambda a: a**2 * kernels.ExpSquared(1.5), es.likelihoods.Poisson, parameters={"a": LogNormal(0.0, 1.0)})
es.Markov(kernels.quasisep.Matern32(1.0), x)
""",
    "sklearn": """
import numpy as np
from ellipslice.gp.sklearn.estimators import EllipticalGPClassifier
x = np.linspace(-1, 1, 20)[:, None]
fitted = EllipticalGPClassifier(random_state=1).fit(x, x[:, 0] > 0)
assert fitted.predict([[0.9]])[0]
""",
    "blackjax": """
import jax, jax.numpy as jnp, numpy as np
import ellipslice as es
from ellipslice.interop.blackjax import elliptical_slice
def log_likelihood(f):
    return -jnp.sum((f - 1.0) ** 2)
prior = es.Diagonal(np.ones(3))
move = es.moves.Hamiltonian(step_size=0.3)
tree = es.sample(log_likelihood, prior, move=move, draws=30, chains=1, seed=1, progress=False)
algorithm = elliptical_slice(log_likelihood, mean=jnp.zeros(3), cov=jnp.eye(3))
algorithm.step(jax.random.key(0), algorithm.init(jnp.zeros(3)))
""",
    "numpyro": """
import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
from numpyro.infer import MCMC
from ellipslice.interop.numpyro import EllipticalSlice
def model():
    f = numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3)))
    numpyro.sample("y", dist.Normal(f, 1.0), obs=jnp.ones(3))
mcmc = MCMC(EllipticalSlice(model), num_warmup=10, num_samples=20, progress_bar=False)
mcmc.run(jax.random.key(0))
assert mcmc.get_samples()["f"].shape == (20, 3)
""",
    "pymc": """
import numpy as np, pymc as pm
from ellipslice.interop.pymc import EllipticalSlice
with pm.Model():
    f = pm.MvNormal("f", np.zeros(3), np.eye(3))
    pm.Normal("y", f, 1.0, observed=np.ones(3))
    trace = pm.sample(20, tune=10, chains=1, step=EllipticalSlice(vars=[f]), progressbar=False, random_seed=1)
assert trace.posterior["f"].shape == (1, 20, 3)
""",
    "store": """
import numpy as np, jax.numpy as jnp
import ellipslice as es
def log_likelihood(f):
    return -jnp.sum((f - 1.0) ** 2)
es.sample(log_likelihood, es.Diagonal(np.ones(3)), draws=50, seed=1, progress=False, store="run.zarr")
assert es.resume("run.zarr", log_likelihood, draws=80, progress=False).posterior.f.shape == (4, 80, 3)
""",
    "dask": """
import numpy as np
from distributed import Client
import ellipslice as es
with Client(processes=False, dashboard_address=None) as client:
    tree = es.sample(
        lambda f: float(-np.sum(np.square(f))), es.Diagonal(np.ones(3)), draws=50, seed=1, progress=False,
        executor=client.get_executor(),
    )
assert tree.posterior.f.shape == (4, 50, 3)
""",
    "fit": TABLE
    + FIT
    + """
from pathlib import Path
frame.to_csv("data.csv", index=False)
ellipslice("fit", "data.csv", "-x", "time", "-y", "count", *short, "--out", "run")
ellipslice("report", "run")
assert {path.name for path in Path("run").iterdir()} >= {"predictions.csv", "plot.png", "report.html"}
""",
    "parquet": TABLE
    + FIT
    + """
frame.to_parquet("data.parquet")
ellipslice("fit", "data.parquet", "-x", "time", "-y", "count", *short, "--out", "run")
""",
    "bench": """
import subprocess, sys
arguments = ["bench", "--problems", "R01", "--chains", "1", "--seconds", "0.05", "--rounds", "1"]
subprocess.run([sys.executable, "-m", "ellipslice", *arguments], check=True)
""",
    "latent": """
import sys
import numpy as np
import ellipslice as es
assert "numba" not in sys.modules
from ellipslice.latent.families import make_family
from ellipslice.latent.family import default_priors
from ellipslice.latent.sparse.analysis import analyse
assert analyse([0, 1, 1], [0, 0, 1], 2).factorise([2.0, 1.0, 2.0]).selected_inverse().shape == (3,)
assert default_priors(make_family("negative_binomial"), np.ones(3))
""",
    "cholmod": """
import numpy as np, scipy.sparse
import ellipslice as es
precision = scipy.sparse.diags([2.0, -0.9, -0.9], [0, 1, -1], shape=(20, 20)).tocsc()
es.SparsePrecision(precision, cholesky="cholmod").draw_zero_mean(np.random.default_rng(1), 2)
""",
    "all": "import ellipslice.apps.fits\nfrom ellipslice.interop import blackjax, numpyro, pymc",
}

WITHOUT: dict[str, str] = {
    "store": """
import numpy as np
import ellipslice as es
es.sample(lambda f: 0.0, es.Diagonal(np.ones(3)), store="run.zarr")
""",
    "gp": "import ellipslice as es\nes.Markov(None, [1.0, 2.0])",
    "sklearn": "import ellipslice.gp.sklearn.estimators",
    "blackjax": "import ellipslice.interop.blackjax",
    "numpyro": "import ellipslice.interop.numpyro",
    "pymc": "import ellipslice.interop.pymc",
    "fit": """
import sys
from pathlib import Path
from ellipslice.apps.cli import main
Path("data.csv").write_text("x,y\\n1,2\\n2,3\\n")
sys.argv = ["ellipslice", "fit", "data.csv", "-x", "x", "-y", "y"]
main()
""",
    "latent": "from ellipslice.latent.sparse.analysis import analyse\nanalyse([0], [0], 1)",
    "cholmod": """
import scipy.sparse
import ellipslice as es
es.SparsePrecision(scipy.sparse.eye(5).tocsc(), cholesky="cholmod")
""",
}
"""Code that needs a missing extra. The error must name the extra."""
