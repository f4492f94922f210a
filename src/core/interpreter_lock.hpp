// The interpreter's lock, given back while the core works, and taken while it calls Python.
//
// When the interpreter ends, CPython before 3.14 ends a daemon thread where it asks for the lock, by pthread_exit: that unwinds
// the thread's stack, through destructors, which end the program if anything leaves them. So the thread waits where it is
// until the process is over, as CPython 3.14 has it by itself.
#pragma once

#include <Python.h>

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

[[noreturn]] inline void wait_for_the_end() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

// Calls Python; what comes out are C++'s own exceptions.
template <class Call> decltype(auto) unless_it_ends(Call &&call) {
  try {
    return std::forward<Call>(call)();
  } catch (const std::exception &) {
    throw;
  } catch (...) {
    wait_for_the_end();
  }
}

class Released {
public:
  Released() = default;
  Released(const Released &) = delete;
  Released &operator=(const Released &) = delete;
  ~Released() {
    unless_it_ends([this] { PyEval_RestoreThread(state_); });
  }

private:
  PyThreadState *state_ = PyEval_SaveThread();
};

class Acquired {
public:
  Acquired() = default;
  Acquired(const Acquired &) = delete;
  Acquired &operator=(const Acquired &) = delete;
  ~Acquired() { PyGILState_Release(state_); }

private:
  PyGILState_STATE state_ = unless_it_ends([] { return PyGILState_Ensure(); });
};
