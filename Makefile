# make demo   set everything up, then mine, pretrain, tune, reward, improve and evaluate a small model on this machine
# make test   set everything up, then run the whole test suite

PYTHON ?= python3.11
BIN := .venv/bin
# --no-compile: most of torch and sglang is never imported
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --no-compile

.PHONY: demo test setup system lint format gpu-check
.DELETE_ON_ERROR:

demo: setup
	$(BIN)/python -m pipeline.run --stages all --profile tiny

test: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations=15

setup: .venv/ready

# Compilers, Python's headers, Slurm and Chromium: installed through apt where that is possible, else named in one line.
system:
	@PYTHON=$(PYTHON) requirements/system.sh

.venv/ready: pyproject.toml $(wildcard requirements/*.txt third_party/*/pyproject.toml) | system
	@echo "setting up .venv (five minutes on two cores, 2 GB)"
	@$(PYTHON) -m venv .venv
	@$(PIP) --upgrade pip==26.3
	@$(PIP) -c requirements/constraints.txt -r requirements/sglang-cpu.txt -e '.[dev]'
	@$(PIP) --no-deps -r requirements/no-deps.txt third_party/sgl_kernel_stub
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# On a GPU host, after `.venv/bin/pip install -e ".[gpu]"`, or inside the image of slurm/Dockerfile.
gpu-check:
	$(BIN)/python -m pytest tests/gpu -m gpu
