// Where tensors lie in global memory, to the byte: the page behind one that may not be touched begins up to 15 bytes behind its end. What
// threads, their copies and the bulk engine do in the memory of a launch's arguments must lie in one of them, of vectors every byte; of a box
// what lies in its descriptor's extents.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace simt {
class Extents {
 public:
  // Memory of `bytes` bytes, all for one tensor; `constant`: no launch writes it
  void allotted(const unsigned char *at, size_t bytes, bool constant) { rooms[at] = {bytes, constant}; }
  void released(const unsigned char *at) { rooms.erase(at); }
  // whether it is memory that launches may write
  bool written(const void *p) const {
    const Room *room = room_of(p);
    return room && !room->constant;
  }

  // A tensor that launches get from now on
  void argument(const unsigned char *at, size_t bytes, const char *name) { tensors.push_back({at, long(bytes), name}), last = before = nullptr; }
  void forget() { tensors.clear(), last = before = nullptr; }

  // Whether one tensor holds all that is touched
  bool hold(const void *p, long bytes) {
    const auto *at = static_cast<const unsigned char *>(p);
    if (last && last->holds(at, bytes)) return true;
    if (before && before->holds(at, bytes)) return std::swap(last, before), true;
    for (const Tensor &t : tensors)
      if (t.holds(at, bytes)) return before = last, last = &t, true;
    return false;
  }
  // What is wrong about an access that no tensor holds, "" where it is none of launches' memory
  std::string outside(const void *p, long bytes, bool write) const {
    const auto *at = static_cast<const unsigned char *>(p);
    const Tensor *near = nullptr;
    for (const Tensor &t : tensors) {
      const bool meets = at < t.at + t.bytes && t.at < at + bytes, together = room_of(at) && room_of(at) == room_of(t.at);
      if ((meets || together) && (!near || t.at <= at)) near = &t;
    }
    if (!near) return {};
    return std::to_string(bytes) + " bytes are " + (write ? "written" : "read") + " from byte " + std::to_string(at - near->at) + " of " +
           near->name + " on, which has " + std::to_string(near->bytes);
  }

 private:
  struct Room { size_t bytes; bool constant; };
  struct Tensor {
    const unsigned char *at = nullptr;
    long bytes = 0;
    std::string name;
    bool holds(const unsigned char *p, long n) const { return p >= at && p + n <= at + bytes; }
  };
  const Room *room_of(const void *p) const {
    const auto behind = rooms.upper_bound(static_cast<const unsigned char *>(p));
    if (behind == rooms.begin()) return nullptr;
    const auto &[at, room] = *std::prev(behind);
    return p < at + room.bytes ? &room : nullptr;
  }

  std::map<const unsigned char *, Room> rooms;
  std::vector<Tensor> tensors;
  const Tensor *last = nullptr, *before = nullptr;  // that were touched: most accesses follow others of the same
};
}  // namespace simt
