// What the program says on standard error, and whether what it said on standard output arrived.
#pragma once

#include <cstdint>
#include <string_view>

#include <CLI/CLI.hpp>

namespace kvant {

// Every line of `text` as a message of its own, after "kvant: ".
void PrintMessage(std::string_view text);

// Wrong arguments, in one sentence that ends with the --help to read.
void PrintUsageError(const CLI::App& app, const CLI::ParseError& error);

// A whole decimal number from low to high, for options: no sign, no exponent, and no leading zero, which would make it
// octal.
CLI::Validator WholeNumber(uint64_t low, uint64_t high);

// Standard streams that the caller closed are made ones that fail, so that no file that is opened later takes their
// place and receives what is printed. Call before anything is opened.
void GuardStandardStreams();

// A mapped model file that shrinks while it is read ends the program with a message in place of a bus error.
void ExplainBusErrors();

// False when something that was printed did not arrive: a full disk, a closed pipe.
bool OutputArrived();

}  // namespace kvant
