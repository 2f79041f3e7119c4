#include "messages.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace kvant {
namespace {

// "kvant bench prefill": the verb that was being read.
std::string CommandOf(const CLI::App& app) {
  std::string command = "kvant";
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    command += " " + at->get_name();
  }
  return command;
}

// CLI11 complains of the missing verb where an unknown one was given.
std::string UsageSentence(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  if (error.get_name() == "RequiredError" && !unknown.empty()) {
    return fmt::format("\"{}\" is not known", unknown.front());
  }
  return error.what();
}

}  // namespace

void PrintMessage(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out += fmt::format("kvant: {}\n", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::fputs(out.c_str(), stderr);
}

void PrintUsageError(const CLI::App& app, const CLI::ParseError& error) {
  std::string sentence = UsageSentence(app, error);
  std::replace(sentence.begin(), sentence.end(), '\n', ' ');
  PrintMessage(fmt::format("{}; see {} --help", sentence, CommandOf(app)));
}

void GuardStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is taken, which is this one; the wrong direction makes every use an error.
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

bool OutputArrived() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

void ExplainBusErrors() {
  std::signal(SIGBUS, [](int) {
    static volatile std::sig_atomic_t said = 0;
    if (said != 0) _exit(1);  // two workers may read the same file
    said = 1;
    // Only what a signal handler may call.
    constexpr std::string_view kText =
        "kvant: a file that was being read has shrunk or its disk failed; put it back and run again\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText.data(), kText.size());
    _exit(1);
  });
}

CLI::Validator WholeNumber(uint64_t low, uint64_t high) {
  const std::string range = fmt::format("{} to {}", low, high);
  return CLI::Validator(
      [low, high, range](std::string& text) -> std::string {
        uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, value);
        const bool plain = parsed.ec == std::errc() && parsed.ptr == end && (text.size() == 1 || text[0] != '0');
        if (plain && value >= low && value <= high) return "";
        return fmt::format("\"{}\" is not a whole number from {}", text, range);
      },
      range);
}

}  // namespace kvant
