"""One GPU kernel that runs whole chains: no launch and no barrier between proposals.

Each chain belongs to one group of 128 threads, which holds its state, its nu and its data in registers, and makes all
updates of a block one after the other. Chains never meet. The likelihood must be a sum over sites (`site_sums.py`).
Written with Pallas, for NVIDIA GPUs from Hopper on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from ellipslice.engines.device.loop import Counts, Draws, Wanted
from ellipslice.engines.device.noise import DeviceNoise
from ellipslice.moves import State
from ellipslice.moves.search import MAX_EVALUATIONS, WIDTH, Path, next_angle
from ellipslice.noise import as_uniform, threefry
from ellipslice.programs.site_program import KERNEL, Elementwise
from ellipslice.programs.site_sums import LANES, elementwise, padded_size

FACTORS = 64
"""How many factors in [1, 2] are multiplied before a logarithm is taken: their product is far from overflow."""

_LOAD_TAKES_INDEX = jax.__version_info__ < (0, 11)


def fused_block(
    path: Path,
    look_ahead: int,
    likelihood: Any,
    state: State,
    noise: DeviceNoise,
    stop: Any,
    wanted: Wanted,
    slots: int,
    interpret: bool = False,
) -> tuple[State, Draws, Counts]:
    """As `barrier_free.barrier_free_block`, for a likelihood that is a sum over sites."""
    (chains, size), dtype = state.f.shape, state.f.dtype
    padded = padded_size(size)
    program = elementwise(likelihood, size, dtype, KERNEL)
    data = [jnp.pad(part.astype(dtype), (0, padded - size), mode="edge") for part in program.data]
    scalars = [jnp.asarray(part, dtype) for part in (*program.scalars, program.constant)]
    w_a, w_b = path.weights(noise.theta)
    inputs = {
        "f": jnp.pad(state.f, ((0, 0), (0, padded - size))),
        "log_likelihood": state.log_likelihood,
        "nu": noise.nu.reshape(noise.level.size, -1),
        "level": noise.level.ravel(),
        "theta": noise.theta.reshape(WIDTH, -1),
        "w_a": w_a.reshape(WIDTH, -1),
        "w_b": w_b.reshape(WIDTH, -1),
        "brackets": noise.brackets.reshape(2, -1),
        "keys": noise.keys.reshape(2, -1),
        "numbers": jnp.stack([jnp.asarray(part, jnp.int32) for part in (stop, wanted.first, wanted.thin)]),
        "scalars": jnp.stack(scalars),
        "is_real": (jnp.arange(padded) < size).astype(dtype),
        "here": noise.here.ravel(),
        **({} if noise.unit is None else {"unit": noise.unit}),
        **{f"data_{i}": part for i, part in enumerate(data)},
    }
    drawn, counted = (slots * chains,), (chains,)
    outputs = {
        "f": ((chains, padded), dtype),
        "log_likelihood": (counted, dtype),
        "draws.f": ((slots * chains, padded), dtype),
        "draws.log_likelihood": (drawn, dtype),
        "draws.proposals": (drawn, jnp.int32),
        "draws.nans": (drawn, jnp.int32),
        "draws.stuck": (drawn, jnp.int32),
        "draws.angle": (drawn, dtype),
        "counts.proposals": (counted, jnp.int32),
        "counts.nans": (counted, jnp.int32),
        "counts.stuck": (counted, jnp.int32),
        "counts.highest": (counted, dtype),
    }
    chain = _Chain(path, look_ahead, program, size, chains, dtype, interpret)
    out = _call(chain, inputs, outputs, chains, dtype, interpret)
    parts = [out[f"draws.{name}"] for name in Draws._fields]
    draws = Draws(*(part.reshape(slots, chains, *part.shape[1:]) for part in parts))
    draws = draws._replace(f=draws.f[..., :size], stuck=draws.stuck > 0)
    counts = Counts(*(out[f"counts.{name}"] for name in Counts._fields))
    return State(out["f"][:, :size], out["log_likelihood"]), draws, counts


def _call(
    chain: _Chain, inputs: dict[str, Any], outputs: dict[str, Any], chains: int, dtype: Any, interpret: bool
) -> dict[str, Any]:
    """The kernel on these arrays, one program for each chain."""

    def kernel(*references: Any) -> None:
        named = dict(zip(inputs, references, strict=False)), dict(zip(outputs, references[len(inputs) :], strict=True))
        chain.run(*named, pl.program_id(0) if interpret else lax.axis_index("chain"))

    shapes = [jax.ShapeDtypeStruct(*output) for output in outputs.values()]
    call = _launch(kernel, shapes, chains, "chain", dtype, interpret)
    return dict(zip(outputs, call(*inputs.values()), strict=True))


def fused_angles(path: Path, keys: Any, dtype: Any, interpret: bool = False) -> tuple[Any, Any, Any]:
    """As `device_noise.first_angles`, in one kernel: a thread for each update."""
    shape, count = keys.shape[1:], keys[0].size
    padded = padded_size(count)
    words = jnp.pad(keys.reshape(2, count), ((0, 0), (0, padded - count)))

    def kernel(words: Any, here_out: Any, theta_out: Any, brackets_out: Any) -> None:
        rows = pl.ds((pl.program_id(0) if interpret else lax.axis_index("rows")) * LANES, LANES)
        key_0, key_1 = (_load_lanes(words, interpret, i, rows) for i in range(2))

        def u(number: Any) -> Any:
            index = jnp.full((LANES,), number, jnp.uint32)
            return _uniform(threefry(key_0, key_1, index, jnp.zeros((LANES,), jnp.uint32)), dtype.type)

        def lanes(value: Any) -> Any:
            return jnp.broadcast_to(jnp.asarray(value, dtype), (LANES,))

        def following(number: Any, last: Any) -> Any:
            last = next_angle(path, here, last, u((number + 2).astype(jnp.uint32)))
            theta_out[number, rows] = last[0]
            return last

        place = u(jnp.uint32(1))
        here = lanes(path.here(place))
        first = tuple(lanes(part) for part in path.begin(here, place, u(jnp.uint32(2))))
        here_out[rows] = here
        theta_out[0, rows] = first[0]
        _, brackets_out[0, rows], brackets_out[1, rows] = lax.fori_loop(1, WIDTH, following, first)

    shapes = [jax.ShapeDtypeStruct(size, dtype) for size in ((padded,), (WIDTH, padded), (2, padded))]
    outputs = _launch(kernel, shapes, padded // LANES, "rows", dtype, interpret)(words)
    here, theta, brackets = (part[..., :count].reshape(*part.shape[:-1], *shape) for part in outputs)
    return here, theta, brackets


def _launch(kernel: Any, shapes: list[Any], programs: int, name: str, dtype: Any, interpret: bool) -> Any:
    """A function that runs so many copies of a kernel; interpreted, they run without a GPU, for tests."""
    if interpret:
        return pl.pallas_call(kernel, out_shape=shapes, grid=(programs,), interpret=True)
    parameters = plgpu.CompilerParams(
        approx_math=dtype == np.float32,
        unsafe_no_auto_barriers=True,  # nothing is both read and written
        lowering_semantics=plgpu.LoweringSemantics.Warpgroup,
    )
    return plgpu.kernel(kernel, out_type=shapes, grid=(programs,), grid_names=(name,), compiler_params=parameters)


def _load_lanes(reference: Any, interpret: bool, *where: Any) -> Any:
    if interpret:
        return reference[where]
    layout = plgpu.Layout.WG_STRIDED((LANES,), vec_size=1)
    if _LOAD_TAKES_INDEX:
        return plgpu.load(reference, where, layout=layout)
    return plgpu.load(reference.at[where], layout=layout)  # pyright: ignore[reportCallIssue]


class _Try(NamedTuple):
    """A search under way. `accepted` is 0 or 1."""

    accepted: Any
    tried: Any
    nans: Any
    w_a: Any
    w_b: Any
    value: Any


class _Chain:
    """The updates of one chain, as the kernel runs them: `inputs` and `outputs` are arrays in the GPU's memory."""

    def __init__(
        self, path: Path, look_ahead: int, program: Elementwise, size: int, chains: int, dtype: Any, interpret: bool
    ):
        self.path, self.look_ahead, self.program = path, look_ahead, program
        self.size, self.chains, self.dtype, self.interpret = size, chains, dtype.type, interpret
        self.pieces = padded_size(size) // LANES

    def run(self, inputs: dict[str, Any], outputs: dict[str, Any], chain: Any) -> None:
        self.inputs = inputs
        self.data = [self._load(inputs[f"data_{i}"]) for i in range(len(self.program.data))]
        self.scalars = [inputs["scalars"][i] for i in range(len(self.program.scalars) + 1)]
        self.is_real = self._load_piece(inputs["is_real"], self.pieces - 1)
        stop, first, thin = (inputs["numbers"][i] for i in range(3))

        def one_update(t: Any, carry: Any) -> Any:
            f, log_l, counts, (slot, wanted) = carry
            row = t * self.chains + chain
            a, b = self._curve(f, self._nu(row), row)
            found, late = self._search(a, b, log_l, row)
            accepted, tried, nans = found.accepted == 1, found.tried, found.nans
            f = self._at(a, b, found, f)
            log_l = jnp.where(accepted, found.value, log_l)
            stuck = 1 - found.accepted
            leaves_draw = t == wanted

            @pl.when(leaves_draw)
            def _() -> None:
                place = slot * self.chains + chain
                column = jnp.minimum(tried, WIDTH) - 1
                theta = jnp.where(tried > WIDTH, late, inputs["theta"][column, row])
                angle = jnp.where(accepted, theta - inputs["here"][row], self.dtype(0))
                self._store(outputs["draws.f"], f, place)
                for name, number in zip(Draws._fields[1:], (log_l, tried, nans, stuck, angle), strict=True):
                    outputs[f"draws.{name}"][place] = number

            proposals, nans_before, stuck_before, highest = counts
            counts = proposals + tried, nans_before + nans, stuck_before + stuck, jnp.maximum(highest, log_l)
            slot, wanted = jnp.where(leaves_draw, slot + 1, slot), jnp.where(leaves_draw, wanted + thin, wanted)
            return f, log_l, counts, (slot, wanted)

        none = jnp.int32(0)
        f, log_l = self._load(inputs["f"], chain), inputs["log_likelihood"][chain]
        begin = f, log_l, (none, none, none, log_l), (none, first)
        f, log_l, counts, _ = lax.fori_loop(0, stop, one_update, begin)
        self._store(outputs["f"], f, chain)
        outputs["log_likelihood"][chain] = log_l
        for name, number in zip(Counts._fields, counts, strict=True):
            outputs[f"counts.{name}"][chain] = number

    def _search(self, a: Any, b: Any, log_l: Any, row: Any) -> tuple[_Try, Any]:
        """The last try, and its angle if that was not in the table."""
        log_y = log_l - self.inputs["level"][row]
        none = jnp.int32(0)

        def from_table(now: tuple[_Try, list[Any]]) -> tuple[_Try, list[Any]]:
            last, pairs = now
            column = jnp.minimum(last.tried + self.look_ahead, WIDTH - self.look_ahead)
            following = self._weights(column, row)  # loaded while these are evaluated
            return self._judge(last, pairs, self._values(a, b, pairs), log_y), following

        def beyond(now: tuple[_Try, Any]) -> tuple[_Try, Any]:
            last, angle = now
            key = self.inputs["keys"]
            words = threefry(key[0, row], key[1, row], (last.tried + 2).astype(jnp.uint32), jnp.uint32(0))
            angle = next_angle(self.path, self.inputs["here"][row], angle, _uniform(words, self.dtype))
            pair = self.path.weights(angle[0])
            return self._judge(last, [pair], self._values(a, b, [pair]), log_y), angle

        def goes_on(last: int) -> Any:
            return lambda now: (now[0].accepted == 0) & (now[0].tried < last)

        begin = _Try(none, none, none, self.dtype(1), self.dtype(0), log_l)
        last, _ = lax.while_loop(goes_on(WIDTH), from_table, (begin, self._weights(none, row)))
        brackets = self.inputs["brackets"]
        edge = self.inputs["theta"][WIDTH - 1, row], brackets[0, row], brackets[1, row]
        last, (theta, *_) = lax.while_loop(goes_on(MAX_EVALUATIONS), beyond, (last, edge))
        return last, theta

    def _judge(self, last: _Try, pairs: Any, values: Any, log_y: Any) -> _Try:
        """The first of these points that is above the level, or none; from the last to the first."""
        one, none = jnp.int32(1), jnp.int32(0)
        accepted, used, (_, _, _, w_a, w_b, value) = none, jnp.int32(len(pairs)), last
        for i, ((c, s), here) in reversed(list(enumerate(zip(pairs, values, strict=True)))):
            hit = here > log_y
            accepted, used = jnp.where(hit, one, accepted), jnp.where(hit, jnp.int32(i + 1), used)
            w_a, w_b, value = jnp.where(hit, c, w_a), jnp.where(hit, s, w_b), jnp.where(hit, here, value)
        nans = last.nans
        for i, here in enumerate(values):
            nans = jnp.where((here != here) & (used > i), nans + one, nans)
        return _Try(accepted, last.tried + used, nans, w_a, w_b, value)

    def _at(self, a: Any, b: Any, found: _Try, f: Any) -> tuple[Any, ...]:
        """The point that was accepted, else f. (In the kernel, conditions choose between single numbers only.)."""
        if all(x is old for x, old in zip(a, f, strict=True)):  # then the weights of no point, (1, 0), give f
            return tuple(x * found.w_a + y * found.w_b for x, y in zip(a, b, strict=True))
        yes = jnp.where(found.accepted == 1, self.dtype(1), self.dtype(0))
        no = self.dtype(1) - yes
        return tuple((x * found.w_a + y * found.w_b) * yes + old * no for x, y, old in zip(a, b, f, strict=True))

    def _weights(self, column: Any, row: Any) -> list[tuple[Any, Any]]:
        """The weights of the next few angles in the table."""
        w_a, w_b = self.inputs["w_a"], self.inputs["w_b"]
        return [(w_a[column + i, row], w_b[column + i, row]) for i in range(self.look_ahead)]

    def _values(self, a: Any, b: Any, pairs: Sequence[Any]) -> list[Any]:
        """The log-likelihood at some points of the curve. All that each thread does comes first, then the sums."""
        parts = [self._thread_sums(a, b, *weights) for weights in pairs]
        return [jnp.sum(part) + self.scalars[-1] for part in parts]

    def _thread_sums(self, a: Any, b: Any, w_a: Any, w_b: Any) -> Any:
        """Each thread's part of the log-likelihood at the point of the curve with these weights."""
        total: Any = None
        product: Any = None
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            part, factor = self.program.parts(x * w_a + y * w_b, [data[i] for data in self.data], self.scalars, KERNEL)
            if i == self.pieces - 1 and self.size % LANES:
                part = jnp.where(self.is_real > 0, part, self.dtype(0))
                factor = None if factor is None else jnp.where(self.is_real > 0, factor, self.dtype(1))
            total = part if total is None else total + part
            product = factor if product is None else product * factor
            if product is not None and (i + 1) % FACTORS == 0:
                total, product = total - jnp.log(product), None
        return total if product is None else total - jnp.log(product)

    def _curve(self, f: Any, nu: Any, row: Any) -> tuple[Any, Any]:
        here = self.inputs["here"][row]
        pieces = [self.path.curve(x, y, here) for x, y in zip(f, nu, strict=True)]
        return tuple(a for a, _ in pieces), tuple(b for _, b in pieces)

    def _nu(self, row: Any) -> tuple[Any, ...]:
        first = self._load(self.inputs["nu"], row)
        if "unit" not in self.inputs:
            return first
        second, unit = self._load(self.inputs["nu"], row, start=self.pieces), self._load(self.inputs["unit"])
        return tuple((x + y) * z for x, y, z in zip(first, second, unit, strict=True))

    def _load(self, reference: Any, *index: Any, start: int = 0) -> tuple[Any, ...]:
        return tuple(self._load_piece(reference, start + i, *index) for i in range(self.pieces))

    def _load_piece(self, reference: Any, piece: int, *index: Any) -> Any:
        return _load_lanes(reference, self.interpret, *index, pl.ds(piece * LANES, LANES))

    def _store(self, reference: Any, pieces: Any, *index: Any) -> None:
        for i, piece in enumerate(pieces):
            reference[(*index, pl.ds(i * LANES, LANES))] = piece


def _uniform(words: tuple[Any, Any], dtype: Any) -> Any:
    return as_uniform(_Word(words[0]), _Word(words[1]), dtype)


class _Word:
    """A random word in the kernel, which converts only signed integers to floating point."""

    def __init__(self, bits: Any):
        self.bits = bits

    def __rshift__(self, count: Any) -> _Word:
        return _Word(self.bits >> count)

    def astype(self, dtype: Any) -> Any:
        return self.bits.astype(jnp.int32).astype(dtype)
