"""Metrics pages as their documentation has them: names, labels and units, with figures that are easy to check."""

VLLM = """\
# HELP vllm:e2e_request_latency_seconds Histogram of end to end request latency in seconds.
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{{engine="0",le="0.3",model_name="m"}} {requests}
vllm:e2e_request_latency_seconds_bucket{{engine="0",le="+Inf",model_name="m"}} {requests}
vllm:e2e_request_latency_seconds_count{{engine="0",model_name="m"}} {requests}
vllm:e2e_request_latency_seconds_sum{{engine="0",model_name="m"}} {whole}
vllm:request_queue_time_seconds_count{{engine="0",model_name="m"}} {requests}
vllm:request_queue_time_seconds_sum{{engine="0",model_name="m"}} {queue}
vllm:request_prefill_time_seconds_count{{engine="0",model_name="m"}} {requests}
vllm:request_prefill_time_seconds_sum{{engine="0",model_name="m"}} {prefill}
vllm:request_decode_time_seconds_count{{engine="0",model_name="m"}} {requests}
vllm:request_decode_time_seconds_sum{{engine="0",model_name="m"}} {decode}
vllm:time_to_first_token_seconds_count{{engine="0",model_name="m"}} {requests}
vllm:time_to_first_token_seconds_sum{{engine="0",model_name="m"}} {first}
"""
SGLANG = """\
# TYPE sglang:e2e_request_latency_seconds histogram
sglang:e2e_request_latency_seconds_count{{model_name="m"}} {requests}
sglang:e2e_request_latency_seconds_sum{{model_name="m"}} {whole}
sglang:time_to_first_token_seconds_count{{model_name="m"}} {requests}
sglang:time_to_first_token_seconds_sum{{model_name="m"}} {first}
sglang:queue_time_seconds_count{{model_name="m"}} {requests}
sglang:queue_time_seconds_sum{{model_name="m"}} {queue}
sglang:num_queue_reqs{{model_name="m"}} 0.0
"""
TGI = """\
# TYPE tgi_request_duration histogram
tgi_request_duration_count {requests}
tgi_request_duration_sum {whole}
tgi_request_queue_duration_count {requests}
tgi_request_queue_duration_sum {queue}
tgi_batch_inference_duration_sum{{method="prefill"}} {prefill}
tgi_batch_inference_duration_sum{{method="decode"}} {decode}
tgi_batch_inference_duration_count{{method="prefill"}} {requests}
tgi_batch_inference_duration_count{{method="decode"}} 160
tgi_queue_size 0
"""


def page(form: str, requests: int) -> str:
    """The page after so many requests, each of 0.5 s queued, 0.25 of prefill and 2 of decode."""
    each = {"queue": 0.5, "prefill": 0.25, "decode": 2.0, "first": 0.75, "whole": 2.75}
    return form.format(requests=float(requests), **{name: seconds * requests for name, seconds in each.items()})
