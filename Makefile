# The two commands of a newcomer are `make demo` and `make test`; `make` alone lists all.
# Work is done by CMake and the scripts under tools/, which also run alone.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Warnings are errors with Debian bookworm's compiler, GCC 12 (which a bare system has not yet: then it will be that
# one); newer ones warn about more, and a newcomer's build must not fail for that.
compiler := $(shell $(or $(filter-out default,$(CXX)),c++) -dumpversion 2>/dev/null | cut -d. -f1)
export KVANT_WERROR ?= $(if $(filter-out 12,$(compiler)),OFF,ON)
# make test FORCE=1 runs what has not changed since it passed.
export FORCE
EXPERIMENT ?= experiments/keys-vs-values.toml

# demo and test share build/release and configure it alike, so neither makes the other compile again.
configure = cmake --preset release -DKVANT_WERROR=$(KVANT_WERROR) --log-level=WARNING

.PHONY: help setup build demo test unit asan scalar layers format lint clean

help:
	@sed -n 's/^\([a-z]*\):[^#]*## /\1\t/p' Makefile | expand -t 12

setup: ## install all Debian packages that building, running and testing need
	tools/setup

build: ## build everything, optimized, in build/release
	tools/setup build
	$(configure)
	cmake --build build/release

demo: ## install, build, fetch the default model, run the default experiment
	tools/setup build demo
	$(configure)
	cmake --build build/release --target bin/kvant
	tools/fetch_model
	build/release/bin/kvant run $(EXPERIMENT)

test: ## install, build, run all tests and checks (FORCE=1: also what has not changed)
	tools/setup
	tools/run_tests

unit: build ## run the fast tests only
	ctest --test-dir build/release --output-on-failure -L unit

asan: ## run the fast tests under AddressSanitizer and UndefinedBehaviorSanitizer
	tools/setup
	FORCE=1 tools/run_tests sanitizers

scalar: ## run the kernel tests compiled for Highway's scalar target
	tools/setup
	FORCE=1 tools/run_tests scalar

layers: ## check who includes whom
	tools/check_layers

format: ## format all C++ in place
	tools/check_format --fix

lint: build ## run clang-tidy over the library and the programs
	tools/lint

clean: ## remove everything that was built, and the memory of what passed
	rm -rf build
