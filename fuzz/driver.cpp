// A small fuzzer of our own, where there is no libFuzzer (which needs clang): first every file of the corpus, then
// mutations of them, for some seconds or executions. Inputs that reach code nobody reached before are kept and
// mutated further. The same seed and number of executions give the same run.
//
//   svmlight [-seconds=N] [-executions=N] [-seed=N] [corpus folders or files]
//
// A sanitizer's report, an abort or 10 s of computing in one input end the program; what was tried last is in crash-<target> then.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <sanitizer/common_interface_defs.h>
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include "random.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

// What was reached: one bit for each place and about how often it was reached in one execution.
constexpr std::size_t n_places = 1 << 14;
std::uint8_t hits[n_places], reached[n_places];
std::uint32_t touched[n_places]; // places with hits; no vector, which would be gone when the last of them come, at the exit
std::size_t n_touched = 0;

std::uint8_t about(std::uint8_t count) {
  const std::uint8_t steps[] = {1, 2, 3, 4, 8, 16, 32, 128};
  std::uint8_t bit = 0;
  for (int i = 0; i < 8; ++i)
    if (count >= steps[i]) bit = static_cast<std::uint8_t>(1u << i);
  return bit;
}

bool anything_new() {
  bool found = false;
  for (std::size_t t = 0; t < n_touched; ++t) {
    const std::uint32_t place = touched[t];
    const std::uint8_t bit = about(hits[place]);
    found |= (reached[place] & bit) == 0;
    reached[place] |= bit;
    hits[place] = 0;
  }
  n_touched = 0;
  return found;
}

Input current;
std::string crash_file;

void keep_current() {
  const int file = creat(crash_file.c_str(), 0644);
  if (file >= 0 && write(file, current.data(), current.size()) >= 0) close(file);
  std::fprintf(stderr, "the input is in %s, %zu bytes\n", crash_file.c_str(), current.size());
}

volatile std::sig_atomic_t told_to_stop = 0;
void on_stop(int) { told_to_stop = 1; }

void on_signal(int signal) {
  std::fprintf(stderr, signal == SIGPROF ? "an input took more than 10 s of computing\n" : "signal %d\n", signal);
  keep_current();
  _exit(1);
}

// Of the processor, not of the clock: the machine may have other things to do.
void set_limit(time_t seconds) {
  const itimerval limit{{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

void run(const Input &input) {
  current = input;
  set_limit(10);
  const Input exact(input); // memory of exactly that size, so that a byte too many is seen
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

class Mutator {
public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  Input operator()(const std::vector<Input> &corpus) {
    Input input = one_of(corpus);
    for (std::uint32_t steps = 1 + below(6); steps > 0; --steps) step(input, corpus);
    if (input.size() > longest) input.resize(longest);
    return input;
  }

private:
  static constexpr std::size_t longest = 1024;

  std::uint32_t below(std::size_t bound) { return random_.below(static_cast<std::uint32_t>(std::max<std::size_t>(1, bound))); }
  const Input &one_of(const std::vector<Input> &corpus) { return corpus[below(corpus.size())]; }
  std::uint8_t byte() {
    static const char common[] = "0123456789 \n:.-+eE#\t\rqidnanfx,\0\xff\x80\x7f";
    return below(2) == 0 ? static_cast<std::uint8_t>(below(256)) : static_cast<std::uint8_t>(common[below(sizeof common - 1)]);
  }
  void insert(Input &input, const Input &from) {
    const std::size_t begin = below(from.size()), length = std::min<std::size_t>(from.size() - begin, 1 + below(32));
    const Input piece(from.begin() + static_cast<std::ptrdiff_t>(begin),
                      from.begin() + static_cast<std::ptrdiff_t>(begin + length));
    input.insert(input.begin() + below(input.size() + 1), piece.begin(), piece.end());
  }
  void step(Input &input, const std::vector<Input> &corpus) {
    if (input.empty()) input.push_back(byte());
    const std::size_t at = below(input.size());
    const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(9)) {
    case 0: input[at] ^= static_cast<std::uint8_t>(1u << below(8)); break;
    case 1:
    case 2: input[at] = byte(); break;
    case 3: input.insert(place, byte()); break;
    case 4: input.erase(place, place + static_cast<std::ptrdiff_t>(1 + below(std::min<std::size_t>(16, input.size() - at)))); break;
    case 5: insert(input, Input(input)); break;
    case 6: insert(input, one_of(corpus)); break;
    case 7: input.insert(place, 1 + below(40), byte()); break;
    default: input[at] = static_cast<std::uint8_t>(input[at] + below(9) - 4);
    }
  }
  mm::Random random_;
};

void read_corpus(const std::filesystem::path &path, std::vector<Input> &corpus) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(path))
    for (const auto &entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path());
  else
    files.push_back(path);
  std::sort(files.begin(), files.end()); // a seed means the same everywhere
  for (const auto &name : files) {
    std::ifstream file(name, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s cannot be read\n", name.c_str());
      std::exit(2);
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
}

double option(const char *text, const char *name, double otherwise) {
  return std::strncmp(text, name, std::strlen(name)) == 0 ? std::atof(text + std::strlen(name)) : otherwise;
}

} // namespace

// Undefined behaviour has a library of its own, which does not know the callback below: it aborts, and we hear of that.
extern "C" const char *__ubsan_default_options() { return "print_stacktrace=1:abort_on_error=1"; }

// The compiler calls it wherever control can go (-fsanitize-coverage=trace-pc).
extern "C" void __sanitizer_cov_trace_pc() {
  const auto pc = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) -
                  reinterpret_cast<std::uintptr_t>(&LLVMFuzzerTestOneInput); // wherever the program was loaded
  const auto place = static_cast<std::uint32_t>((pc * 0x9e3779b97f4a7c15u) >> 50);
  if (hits[place] == 0) touched[n_touched++] = place;
  if (hits[place] != 255) ++hits[place];
}

int main(int argc, char **argv) {
  double seconds = 1e18, executions = 1e18, seed = std::random_device{}();
  std::vector<Input> corpus;
  for (int i = 1; i < argc; ++i) {
    seconds = option(argv[i], "-seconds=", seconds);
    executions = option(argv[i], "-executions=", executions);
    seed = option(argv[i], "-seed=", seed);
    if (argv[i][0] != '-') read_corpus(argv[i], corpus);
  }
  const std::string name = std::filesystem::path(argv[0]).filename();
  crash_file = "crash-" + name;
  std::printf("%s: -seed=%.0f\n", name.c_str(), seed);
  std::fflush(stdout); // a crash would take it along
  __sanitizer_set_death_callback(keep_current);
  for (const int signal : {SIGPROF, SIGABRT, SIGSEGV, SIGFPE, SIGILL}) std::signal(signal, on_signal);
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, on_stop); // and says how far it came

  if (corpus.empty()) corpus.push_back({});
  double done = 0;
  for (const Input &input : corpus) {
    run(input);
    anything_new();
    ++done;
  }
  const std::size_t given = corpus.size();
  Mutator mutated(static_cast<std::uint64_t>(seed));
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  for (std::uint32_t round = 0; done < executions && told_to_stop == 0; ++round, ++done) {
    if (round % 1024 == 0 && passed() >= seconds) break;
    const Input input = mutated(corpus);
    run(input);
    if (anything_new()) corpus.push_back(input);
  }
  set_limit(0);
  std::printf("%s: %.0f executions, %.0f s, %zu inputs of the corpus and %zu found, no fault\n", name.c_str(), done,
              passed(), given, corpus.size() - given);
  return 0;
}
