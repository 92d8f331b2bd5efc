// Memory of allocation nodes. An allocation's address is fixed when its node is made (from a window of
// addresses that nothing else uses); device memory stands behind it from a launch or upload until it is freed
// and trimmed, as on the hardware. Engine mutex held; the map entry itself appears and goes when the
// allocation and free nodes execute.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "tools/simgpu/driver/core/context.h"

namespace simgpu::driver {

struct GraphAllocation : std::enable_shared_from_this<GraphAllocation> {
  GraphAllocation(int device, uint64_t address, uint64_t bytes);
  ~GraphAllocation();
  const int device;
  const uint64_t address, bytes;  // bytes: as asked for
  AllocationRef allocation;       // what the memory map shows while it exists
  uint64_t block = 0;             // device memory behind it; 0: none now
  uint64_t block_bytes = 0;
  bool live = false;       // handed out by a launch and not freed again, in submission order
  uint32_t in_flight = 0;  // launches that will still touch it
  uint64_t owner = 0;      // id of the graph with the allocation node
  uint64_t freed_by = 0;   // id of the graph with a free node for it
};
using GraphAllocationRef = std::shared_ptr<GraphAllocation>;

// A new address range; null when the window is used up. `rights` per visible ordinal.
GraphAllocationRef make_graph_allocation(int device, uint64_t bytes, std::vector<uint8_t> rights);
// The allocation starting at an address, whether or not memory stands behind it; null for anything else.
GraphAllocationRef graph_allocation_at(uint64_t address);
// The allocation containing an address, as the memory map would show it; null when it is not graph memory.
AllocationRef graph_memory_containing(uint64_t address);
bool in_graph_window(uint64_t address);  // never touch such an address itself
// Device memory for it, from the device's cache or its heap. OUT_OF_MEMORY.
CUresult back(GraphAllocation& memory);
void unback(GraphAllocation& memory);  // its memory returns to the cache
// Map entry, at execution of an allocation or free. Any thread.
void show(const GraphAllocation& memory);
void hide(const GraphAllocation& memory);
// Its memory goes back to the cache unless something still uses it.
void freed(GraphAllocation& memory);
// cuMemFreeAsync in a stream, or cuMemFree (null stream: waits). `memory` must be live.
CUresult free_graph_memory(Lock& lock, const GraphAllocationRef& memory,
                           const std::shared_ptr<Stream>& stream);
// The device's primary context is destroyed: what launches left allocated there goes.
void drop_graph_memory(int device);
// Keeps an allocation that outlives its graph until it is freed.
void set_live(const GraphAllocationRef& memory, bool live);

CUresult graph_memory_trim(int device);
CUresult graph_memory_attribute(int device, CUgraphMem_attribute attribute, uint64_t& value);
CUresult reset_graph_memory_attribute(int device, CUgraphMem_attribute attribute);
void note_graph_memory_use(int device);  // high-water marks
}  // namespace simgpu::driver
