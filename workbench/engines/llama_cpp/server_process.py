"""The process that runs llama.cpp's server: told what to run in one line of JSON, it ends when its input does.

The input is a pipe from the workbench. However that process ends, the system closes the pipe, and the server ends with
it, while it still loads too: a process of its own watches the pipe, since llama.cpp lets no thread of Python run then.
"""

import json
import os
import signal
import sys
from typing import Any

from workbench.engines.llama_cpp.leash import end_group_with


def main() -> None:
    """Start the server, write its address as one line of JSON, and serve until the end of the input."""
    told: dict[str, Any] = json.loads(sys.stdin.readline())
    if os.fork() == 0:
        os.close(1)
        end_group_with(0)
    # llama.cpp writes what it loads to standard output, which here is for the address alone.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        server = _started(told)
        said = {"address": server.listening_address}
    except Exception as error:
        said = {"error": " ".join(str(error).split()) or type(error).__name__}
    print(json.dumps(said), file=answer, flush=True)
    while True:
        signal.pause()


def _started(told: dict[str, Any]) -> Any:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = told["path"]
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [told["key"]]
    parameters.cpuparams.n_threads = told["threads"]
    parameters.cpuparams_batch.n_threads = told["threads"]
    parameters.n_batch = told["batch_tokens"]
    parameters.n_ubatch = told["micro_batch_tokens"]
    parameters.n_parallel = told["sequences"]
    parameters.n_ctx = told["sequences"] * told["context"]
    parameters.kv_unified = False
    parameters.cache_type_k = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{told['cache_k'].upper()}")
    parameters.cache_type_v = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{told['cache_v'].upper()}")
    if told["gpu_layers"] is not None:
        parameters.n_gpu_layers = told["gpu_layers"]
    # What is asked for is run, or refused; nothing is changed to make it fit, and no prompt is kept for later.
    parameters.fit_params = False
    parameters.cache_ram_mib = 0
    parameters.ui = False
    return xllamacpp.Server(parameters)


if __name__ == "__main__":
    main()
