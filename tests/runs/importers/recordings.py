"""Output of llama-bench and llama-batched-bench as a terminal had it.

`recorded/` holds what both wrote on a box of two AMD EPYC cores in November 2026, of SmolLM2-135M in Q4_1. The older
column sets below are excerpts of llama-bench's own README of September 2023, at the versions it names.
"""

from pathlib import Path

RECORDED = Path(__file__).parent / "recorded"

OLD_CSV = """\
build_commit,build_number,cuda,metal,gpu_blas,blas,cpu_info,gpu_info,model_filename,model_type,model_size,\
model_n_params,n_batch,n_threads,f16_kv,n_gpu_layers,main_gpu,mul_mat_q,tensor_split,n_prompt,n_gen,test_time,avg_ns,\
stddev_ns,avg_ts,stddev_ts
"3469684","1275","1","0","0","1","1","13th Gen Intel(R) Core(TM) i9-13900K","NVIDIA GeForce RTX 3090 Ti",\
"models/7B/ggml-model-q4_0.gguf","llama 7B mostly Q4_0","3825065984","6738415616","512","16","1","99","0","1","0.00",\
"512","0","2023-09-23T12:09:01Z","212155977","732372","2413.341687","8.305961"
"3469684","1275","1","0","0","1","1","13th Gen Intel(R) Core(TM) i9-13900K","NVIDIA GeForce RTX 3090 Ti",\
"models/7B/ggml-model-q4_0.gguf","llama 7B mostly Q4_0","3825065984","6738415616","512","16","1","99","0","1","0.00",\
"0","128","2023-09-23T12:09:02Z","969320879","2728399","132.052051","0.371342"
"""
"""Its header lacks the name of the second value, as the version of that month had it."""

OLD_MARKDOWN = """\
| model                          |       size |     params | backend    | ngl | test       |              t/s |
| ------------------------------ | ---------: | ---------: | ---------- | --: | ---------- | ---------------: |
| llama 7B mostly Q4_0           |   3.56 GiB |     6.74 B | CUDA       |  10 | pp 512     |    373.36 ± 2.25 |
| llama 7B mostly Q4_0           |   3.56 GiB |     6.74 B | CUDA       |  10 | tg 128     |     13.45 ± 0.93 |

build: 3469684 (1275)
"""


def recording(name: str) -> str:
    """The text of a recording."""
    return (RECORDED / name).read_text(encoding="utf-8")
