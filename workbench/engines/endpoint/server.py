"""Which server answers at an address, which model it serves, and what it takes and tells beyond the API."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from workbench.engines.endpoint.address import Address
from workbench.engines.endpoint.answer import AnswerError, json_of
from workbench.engines.endpoint.connection import Client, ExchangeError, Request
from workbench.errors import SettingsError, unknown_name
from workbench.runner import CancelToken

VERSION_UNTOLD = "version not told"
LONGEST_LABEL = 60


class ServerKind(StrEnum):
    """Servers known by name, and any other."""

    LLAMA_CPP = "llama.cpp server"
    VLLM = "vLLM"
    SGLANG = "SGLang"
    TGI = "text-generation-inference"
    OTHER = "OpenAI-compatible server"


_OWNERS = {"llamacpp": ServerKind.LLAMA_CPP, "vllm": ServerKind.VLLM, "sglang": ServerKind.SGLANG}
"""What these servers write as the owner of their model."""
_VERSIONS: Mapping[ServerKind, tuple[str, str]] = {
    ServerKind.LLAMA_CPP: ("props", "build_info"),
    ServerKind.VLLM: ("version", "version"),
    ServerKind.SGLANG: ("get_server_info", "version"),
    ServerKind.TGI: ("info", "version"),
}
"""The route that tells the version, and under which name."""


@dataclass(frozen=True)
class Server:
    """What is known of a server before it is timed; `slots` are the requests it runs at once, None where not told."""

    kind: ServerKind
    version: str
    model: str
    vocabulary: int | None = None
    slots: int | None = None

    @property
    def takes_ids(self) -> bool:
        """Whether a prompt may be a list of token ids, which makes its length exact."""
        return self.kind in (ServerKind.LLAMA_CPP, ServerKind.VLLM, ServerKind.SGLANG)

    @property
    def stream_options(self) -> Mapping[str, Any]:
        """What is asked of a stream: its tokens counted at the end, and with every chunk where a server does that."""
        each = {"continuous_usage_stats": True} if self.kind is ServerKind.SGLANG else {}
        return {"include_usage": True, **each}

    @property
    def extras(self) -> Mapping[str, Any]:
        """What is asked of it beyond the API: to go on after its end-of-sequence token, and to cache no prompt."""
        match self.kind:
            case ServerKind.LLAMA_CPP:
                return {"ignore_eos": True, "cache_prompt": False, "timings_per_token": True}
            case ServerKind.VLLM:
                return {"ignore_eos": True, "return_token_ids": True}
            case ServerKind.SGLANG:
                return {"ignore_eos": True}
            case _:
                return {}

    @property
    def tells_cached(self) -> bool:
        """Whether its answers say how much of a prompt came from a cache, or it was asked for none."""
        return self.kind in (ServerKind.LLAMA_CPP, ServerKind.VLLM)


def find_server(client: Client, address: Address, served_model: str, cancel: CancelToken) -> Server:
    """Ask a server for its models and its version.

    Raises SettingsError where nothing answers, or it does not serve the model named.
    """
    models = _listed_models(client, address, served_model, cancel)
    if models is None:
        return Server(ServerKind.OTHER, VERSION_UNTOLD, served_model)
    names = [str(entry["id"]) for entry in models if entry.get("id")]
    if not names and not served_model:
        raise SettingsError(f"The endpoint {address} lists no model. Name the one it serves.")
    if served_model and names and served_model not in names:
        raise SettingsError(f"At {address}: {unknown_name('model', served_model, names)}")
    name = served_model or names[0]
    entry = next((entry for entry in models if entry.get("id") == name), {})
    kind = _kind(client, address, entry, cancel)
    route, key = _VERSIONS.get(kind, ("", ""))
    about = _told(client, address.root(route), cancel) if route else {}
    meta = entry.get("meta")
    return Server(
        kind=kind,
        version=client.hidden(_label(about.get(key))) or VERSION_UNTOLD,
        model=client.hidden(_label(name)),
        vocabulary=_count(meta.get("n_vocab") if isinstance(meta, dict) else None),
        slots=_count(about.get("total_slots")),
    )


def _listed_models(
    client: Client, address: Address, served_model: str, cancel: CancelToken
) -> list[Mapping[str, Any]] | None:
    """What a server says of each of its models; None of one that lists none, where `served_model` is named."""
    try:
        listed = json_of(client.ask(Request(address.api("models")), cancel))
    except ExchangeError as error:
        reason = client.hidden(str(error))
        where = "" if str(address) in reason else f" {address}"
        raise SettingsError(
            f"The endpoint{where} does not answer: {reason}. Check that it runs, and its port."
        ) from None
    except AnswerError as error:
        if not served_model or "refuses the key" in str(error):
            raise SettingsError(
                f"The endpoint {address} does not list its models: {client.hidden(str(error))}."
            ) from None
        return None
    entries = listed.get("data") if isinstance(listed, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _kind(client: Client, address: Address, entry: Mapping[str, Any], cancel: CancelToken) -> ServerKind:
    """By the owner that it writes of its model, else by a route that only one of them has."""
    kind = _OWNERS.get(str(entry.get("owned_by")), ServerKind.OTHER)
    if kind is ServerKind.OTHER and _told(client, address.root("info"), cancel).get("max_total_tokens"):
        return ServerKind.TGI
    return kind


def _count(value: Any) -> int | None:
    """A number above zero; None of anything else."""
    return value if isinstance(value, int) and value > 0 else None


def _told(client: Client, path: str, cancel: CancelToken) -> Mapping[str, Any]:
    """The object at a route that a server may not have."""
    try:
        found = json_of(client.ask(Request(path), cancel))
    except (ExchangeError, AnswerError):
        return {}
    return found if isinstance(found, dict) else {}


def _label(value: Any) -> str:
    """A server's word for something, on one short line."""
    return "".join(c for c in str(value or "") if c.isprintable()).strip()[:LONGEST_LABEL]
