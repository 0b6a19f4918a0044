"""llama.cpp's own benchmark programs, run for what a sweep asks: llama-bench and llama-batched-bench."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from workbench.engines.endpoint.key import ENVIRONMENT
from workbench.engines.engine import BatchTiming, EngineLabels, PointError, RequestTiming
from workbench.engines.llama_cpp import leash
from workbench.engines.llama_cpp.file_rates import FileRates
from workbench.engines.llama_cpp.timed_file import LOOK_S, SPARE_TOKENS, STOP_S, TimedFile, labels_of, rates_of
from workbench.errors import SettingsError
from workbench.experiments.engine_settings import BENCH_PROGRAMS, LlamaCppSettings, bench_program
from workbench.experiments.plan import LoadPlan
from workbench.experiments.settings import BatchSettings, SweepSettings
from workbench.runner import CancelToken
from workbench.runs.importers.batched_bench import batched_bench_labels, batched_bench_point
from workbench.runs.importers.imported_point import ImportedPoint, Labels
from workbench.runs.importers.json_records import json_records
from workbench.runs.importers.llama_bench import llama_bench_labels, llama_bench_point
from workbench.runs.importers.record import Record

LEASH = Path(leash.__file__)
MOST_QUOTED = 160


def load_llama_bench(planned: LoadPlan, cancel: CancelToken) -> "LlamaBench":
    """Find the programs a plan needs; raises SettingsError where there is none."""
    cancel.check()
    settings = planned.settings
    match settings:
        case SweepSettings():
            program, repeats = BENCH_PROGRAMS[0], settings.rule.least
        case BatchSettings():
            program, repeats = BENCH_PROGRAMS[1], 1
        case _:
            raise SettingsError(
                "llama-bench takes no pass apart; `workbench gap --run RUN` reads a ladder from its rows."
            )
    labels = labels_of(planned, program, "version not told")
    found = bench_program(settings.llama_cpp.program, program)
    return LlamaBench(planned, found, labels, rates_of(planned, labels.threads), repeats)


class LlamaBench(TimedFile):
    """A GGUF timed by a program that loads it anew for each point; a point's repeats come from one run of it."""

    def __init__(self, planned: LoadPlan, program: Path, labels: EngineLabels, rates: FileRates, repeats: int) -> None:
        super().__init__(planned.resident, labels, rates)
        self._settings: LlamaCppSettings = planned.settings.llama_cpp
        self._program = program
        self._path = planned.model.path
        self._repeats = repeats
        self._prompt_tokens = 0
        self._waiting: dict[tuple[int, int], list[RequestTiming]] = {}

    def prepare(self, prompt_tokens: int, seed: int) -> None:
        """Remember the length; the program makes its own tokens."""
        self._prompt_tokens = prompt_tokens

    def request(self, new_tokens: int, cancel: CancelToken) -> RequestTiming:
        """The next repeat of this length: of the program's last run, or of a new one."""
        n, k = self._prompt_tokens, new_tokens - 1
        if not self._waiting.get((n, k)):
            self._waiting[n, k] = list(self._repeated(n, k, cancel))
        return self._waiting[n, k].pop(0)

    def _repeated(self, n: int, k: int, cancel: CancelToken) -> Iterator[RequestTiming]:
        """Repeats of a prefill of n tokens, each with one of k steps after so many tokens in the cache."""
        prefill = self._point(["-p", str(n), "-n", "0"], cancel)
        steps = self._point(["-p", "0", "-n", str(k), "-d", str(n)], cancel)
        if prefill.prefill is None or steps.step is None:
            raise PointError(prefill.problem or steps.problem or "it measured no prefill and steps")
        for ttft_s, step_s in zip(prefill.prefill.samples_s, steps.step.samples_s, strict=False):
            yield RequestTiming(ttft_s, step_s * k, k)

    def _point(self, asked: Sequence[str], cancel: CancelToken) -> ImportedPoint:
        settings = self._settings
        words = [*asked, "-r", str(self._repeats), "-o", "jsonl", "-t", str(self.labels.threads)]
        words += ["-b", str(settings.batch_tokens), "-ub", str(settings.micro_batch_tokens)]
        words += ["-ctk", settings.cache_k, "-ctv", settings.cache_v]
        record = self._record([*words, *_layers(settings)], "n_prompt", cancel)
        labels = llama_bench_labels(record.values)
        self._take_version(labels)
        return _checked(llama_bench_point(record, labels))

    def batch(self, lengths: Sequence[int], steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        """One prefill and the mean of its steps, as the program tells no more."""
        if min(lengths) < max(lengths):
            raise PointError("llama-batched-bench runs sequences of one length only")
        n, b, settings = lengths[0], len(lengths), self._settings
        context = b * (n + steps + SPARE_TOKENS)
        words = ["-npp", str(n), "-ntg", str(steps), "-npl", str(b), "-c", str(context), "--output-format", "jsonl"]
        words += ["-t", str(self.labels.threads), "-b", str(settings.batch_tokens)]
        words += ["-ub", str(min(settings.micro_batch_tokens, settings.batch_tokens))]
        words += ["-ctk", settings.cache_k, "-ctv", settings.cache_v, *_layers(settings)]
        record = self._record(words, "pl", cancel)
        point = _checked(batched_bench_point(record, batched_bench_labels(record.values)))
        if point.prefill is None or point.step is None:
            raise PointError("it measured no prefill and steps")
        return BatchTiming(point.prefill.best_s, (point.step.best_s,))

    def _record(self, words: Sequence[str], column: str, cancel: CancelToken) -> Record:
        """The one result that the program prints; PointError with its last words where there is none."""
        out, errors, code = self._run([str(self._program), "-m", str(self._path), *words], cancel)
        found = json_records(out, lambda values: column in values).records
        if code or not found:
            raise PointError(_reason(self._program.name, errors or out, code))
        return found[-1]

    def _run(self, command: Sequence[str], cancel: CancelToken) -> tuple[str, str, int]:
        """What the program wrote and its exit code; it is ended as soon as the run is cancelled."""
        environment = {name: value for name, value in os.environ.items() if name != ENVIRONMENT}
        watched, held = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LEASH), *command],
                stdin=watched,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            os.close(held)
            raise PointError(f"{self._program} can't be run: {error.strerror or error}") from None
        finally:
            os.close(watched)
        try:
            while True:
                cancel.check()
                with suppress(subprocess.TimeoutExpired):
                    out, errors = process.communicate(timeout=LOOK_S)
                    return out.decode("utf-8", "replace"), errors.decode("utf-8", "replace"), process.returncode
        finally:
            # With all that it started: it may be a script around the program.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(STOP_S)
            os.close(held)

    def _take_version(self, labels: Labels) -> None:
        if labels.version:
            self.labels = replace(self.labels, engine_version=f"{labels.version}, {self._settings.words}")


def _layers(settings: LlamaCppSettings) -> list[str]:
    return [] if settings.gpu_layers is None else ["-ngl", str(settings.gpu_layers)]


def _checked(point: ImportedPoint | None) -> ImportedPoint:
    """A point that says what it measured; PointError where it doesn't."""
    if point is None:
        raise PointError("what it printed doesn't say what was measured")
    if point.problem:
        raise PointError(point.problem.removeprefix("failed: "))
    return point


def _reason(program: str, words: str, code: int) -> str:
    """Why there is no result: the last thing the program said."""
    plain = ("".join(c if c.isprintable() else " " for c in line).strip() for line in reversed(words.splitlines()))
    last = next(filter(None, plain), "")
    ended = f"{program} was ended by signal {-code}" if code < 0 else f"{program} ended with exit code {code}"
    if not code:
        ended = f"{program} printed no result"
    return f"{ended}: {last[:MOST_QUOTED]}" if last else ended
