# Everything a user or a contributor needs. `make help` lists it.
# Each target sets up what it needs itself: packages by apt-get, the model by pip.

PRESET ?= release
PROMPT ?=
ARGS ?=
FUZZ_SECONDS ?= 60
JOBS ?= $(shell nproc)

# As the user wrote it: make expands nothing in it, and the shell takes it from the environment.
override PROMPT := $(value PROMPT)
export PROMPT

# Compiler results are shared between checkouts.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

QUIRE := build/quire
MODEL := models/SmolLM2-135M-Instruct.Q4_1.gguf

.DEFAULT_GOAL := help
.PHONY: help setup setup-test build run test test-long fuzz lint format models serve bench bench-machine bench-peers bench-serve lab clean

help: ## this list
	@echo "make run                    build, fetch the default model, chat (or answer PROMPT=\"...\")"
	@echo "make test                   build and run the whole test suite"
	@echo "make build                  build $(QUIRE)"
	@echo "make models                 fetch the default model and Gemma 3 270M (Gemma's terms apply)"
	@echo "make lint | make format     check the code's form | put it right"
	@echo "make test-long              the suite under sanitizers, and the long equality runs"
	@echo "make fuzz FUZZ_SECONDS=60   every fuzz target for so many seconds"
	@echo "make serve                  build, fetch the default model, answer over HTTP on port 8080"
	@echo "make bench                  build, fetch the default model, measure its speed here"
	@echo "make bench-machine          build, fetch the default model, measure Quire beside the machine it runs on"
	@echo "make bench-peers            install llama.cpp and OpenVINO GenAI, measure Quire beside them"
	@echo "make bench-serve            build llama.cpp's server, measure Quire's under load beside it"
	@echo "make lab                    build, fetch the default model, run every experiment: build/lab/report.html"
	@echo "make clean                  remove build/"
	@echo
	@echo "Variables: PROMPT, ARGS (for make run, serve, bench, bench-machine, bench-peers, bench-serve and lab), PRESET (release, dev, asan, tsan), JOBS, FUZZ_SECONDS"

setup:
	@scripts/setup.sh build

setup-test:
	@scripts/setup.sh build test

$(MODEL):
	@python3 scripts/fetch_models.py smollm2

build/$(PRESET)/build.ninja: CMakePresets.json
	@cmake --preset $(PRESET)

build: setup build/$(PRESET)/build.ninja
	@cmake --build --preset $(PRESET) --target quire_cli -j $(JOBS)
	@ln -sfn $(PRESET)/quire $(QUIRE)

run: build $(MODEL)
ifeq ($(strip $(PROMPT)),)
	@$(QUIRE) run $(ARGS)
else
	@$(QUIRE) run -p "$$PROMPT" --temp 0 -n 64 $(ARGS)
endif

test: setup-test build $(MODEL)
	@cmake --build --preset $(PRESET) -j $(JOBS)
	@ctest --preset $(PRESET)

test-long: setup-test models build
	@scripts/test_long.sh

fuzz: setup-test
	@scripts/fuzz.sh $(FUZZ_SECONDS)

lint: setup-test
	@scripts/lint.sh

format: setup-test
	@scripts/lint.sh --fix

models: setup
	@python3 scripts/fetch_models.py smollm2
	@python3 scripts/fetch_models.py gemma3

serve: build $(MODEL)
	@$(QUIRE) serve $(ARGS)

bench: build $(MODEL)
	@$(QUIRE) bench $(ARGS)

bench-machine: build $(MODEL)
	@python3 bench/machine.py -o docs/machine.md $(ARGS)

bench-peers: build models
	@cmake --build --preset $(PRESET) --target quire_worker machine_probe -j $(JOBS)
	@python3 bench/peers.py $(ARGS)

bench-serve: build $(MODEL)
	@scripts/setup.sh build test load
	@cmake --build --preset $(PRESET) --target load_client -j $(JOBS)
	@python3 bench/serve.py $(ARGS)

lab: build $(MODEL)
	@$(QUIRE) lab all -o build/lab $(ARGS)

clean:
	@rm -rf build
