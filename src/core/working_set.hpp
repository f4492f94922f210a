// The round of a block solver: choose a working set, get its kernel rows a slab at a time, solve on it alone, move the
// scores of all examples by what changed, certify.
#pragma once

#include "lane_machine.hpp"

namespace mm {

template <class T> class WorkingSetMachine : public LaneMachine<T> {
public:
  Round advance() final;
  void state(State &) override;
  double travelled() const final { return *std::max_element(travelled_.begin(), travelled_.end()); }

protected:
  using Base = LaneMachine<T>;
  using Base::rows_, Base::n_, Base::lanes_, Base::stride_, Base::alpha_, Base::scores_;

  WorkingSetMachine(StoreView<T> rows, Index lanes, std::vector<double> cap, Index working_set);

  // What a solver adds. solve() moves duals of set_ and answers whether it did; it hands their changes to `add`.
  virtual void select() = 0;
  virtual bool solve() = 0;
  virtual Round certified() = 0;
  virtual void refresh() { certified(); } // what `select` reads, after a round of a small set that is not certified

  // scores += K(:, set) change, `change` being set x lanes, stride_ apart.
  void add(const double *change);

  Index most_;                      // examples of a working set
  std::vector<std::int32_t> set_;
  std::vector<char> in_set_;        // of every example; all zero between the rounds
  std::vector<T> square_;           // K of the set against itself
  Index square_ld_ = 0;             // between its rows, a multiple of four

private:
  void find_tiles();
  void select_started(); // the next examples with duals from an earlier fit
  void add_started();

  std::vector<typename StoreView<T>::Tile> tiles_;
  Index started_ = 0;    // examples whose first duals are in the scores, or will be with those of the set
  bool starting_ = true; // until the scores are those of the first duals
  bool selected_ = false;
  Index uncertified_ = 0, visited_ = 0; // rounds and examples since the last certificate
  bool moved_ = false;
  std::vector<double> travelled_; // of every lane
};

} // namespace mm
