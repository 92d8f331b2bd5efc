/* What simgpu's sibling libraries (libnccl, libcupti, libcudart, libnvidia-ml) may ask of simgpu's libcuda
 * beyond the CUDA driver API. C, found with dlsym in the libcuda.so.1 that is loaded; absent in NVIDIA's.
 * Functions lock by themselves; call them from any thread, but not from within a callback unless it says so.
 * Structures start with their size: fields are only added at the end. */
#ifndef SIMGPU_PRIVATE_API_H
#define SIMGPU_PRIVATE_API_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct simgpu_op simgpu_op; /* one execution of a submitted piece of work */

typedef enum { SIMGPU_STEP_DONE = 0, SIMGPU_STEP_AGAIN = 1, SIMGPU_STEP_WAITING = 2 } simgpu_step;
typedef enum {
  SIMGPU_RES_SM = 0,
  SIMGPU_RES_DRAM = 1,
  SIMGPU_RES_HOST_IN = 2,
  SIMGPU_RES_HOST_OUT = 3,
  SIMGPU_RES_PEER_IN = 4,
  SIMGPU_RES_PEER_OUT = 5
} simgpu_resource;
typedef struct {
  int device; /* CUdevice */
  simgpu_resource resource;
  double share; /* part of it used while running alone, 0..1 */
} simgpu_use;

/* Device work of a sibling library. All callbacks run without the driver's lock, one at a time per process; a
 * graph launch executes the same description again. */
typedef struct {
  size_t size;        /* sizeof(simgpu_work) */
  const char* name;   /* copied */
  double sm_fraction; /* SM slots of the stream's device held from start to end, 0..1 */
  int waits_outside;  /* 1: another process decides, so a stall is no deadlock of this process */
  /* The functional effect. *state starts NULL and belongs to this execution. WAITING: asked again later, or
   * simgpu_resume(). */
  simgpu_step (*execute)(void* user, simgpu_op* op, void** state);
  /* Virtual end, given the start; called once executed. Fills up to *use_count uses (capacity on entry) and
   * sets the count. */
  uint64_t (*end_ns)(void* user, simgpu_op* op, void* state, uint64_t start_ns, simgpu_use* uses,
                     int* use_count);
  void (*finished)(void* user, simgpu_op* op, void* state); /* frees state; may be NULL */
  void (*release)(void* user); /* the description itself is no longer needed; may be NULL */
  void* user;
} simgpu_work;

/* Orders the work in a stream (CUstream, NULL and special values as everywhere), or adds a node when the
 * stream captures. Returns a CUresult. */
int simgpu_submit(void* stream, const simgpu_work* work);
/* An execution that answered WAITING has finished: its functional effect is complete. */
void simgpu_resume(simgpu_op* op);
/* Makes waits look again (something outside changed). */
void simgpu_poke(void);
uint64_t simgpu_op_start_ns(const simgpu_op* op);
int simgpu_op_device(const simgpu_op* op);
/* The context's device fails with this CUresult from now on (sticky), with a message for the log. */
void simgpu_op_fail(simgpu_op* op, int error, const char* text);

/* For the race detector and SIMGPU_MEMCHECK (no effect while both are off). Bytes that this execution reads
 * (kind 0), writes (1) or updates atomically (2): call before DONE or simgpu_resume(). meet: the two
 * executions wait for each other, so what follows one follows both, while their own accesses stay unordered;
 * `a` is running, a `b` that has ended is ignored. */
void simgpu_op_access(simgpu_op* op, uint64_t address, size_t bytes, int kind);
void simgpu_op_meet(simgpu_op* a, simgpu_op* b);

uint64_t simgpu_host_ns(void);             /* virtual clock of the calling thread */
uint64_t simgpu_device_ns(void);           /* latest virtual time the simulator has reached */
void simgpu_raise_host_ns(uint64_t to_ns); /* after waiting for somebody outside */
void simgpu_charge_host_ns(uint64_t ns);   /* modelled host work of the sibling library */
/* Waits for everything in the stream. CUresult. Same as cuStreamSynchronize without the API's own cost. */
int simgpu_wait_stream(void* stream);

/* Where `bytes` at a device (or host) address can be read and written by this process; NULL when not one live
 * allocation. */
void* simgpu_host_pointer(uint64_t address, size_t bytes);
int simgpu_device_of_pointer(uint64_t address); /* CUdevice, -1 host or unknown */
/* memfd and offset behind device memory, for sharing with another process; 0 on success. */
int simgpu_export_memory(uint64_t address, int* fd, uint64_t* offset, uint64_t* bytes);
int simgpu_box_index(int device); /* CUdevice -> index in the box */
double simgpu_link_bytes_per_s(int device_a, int device_b /* -1 host */);
int simgpu_null_clock(void); /* 1: SIMGPU_CLOCK=null, nothing is executed */

/* Timeline. kind: kernel memcpy memset sync api runtime host_function alloc free graph custom event_record
 * event_wait other. */
typedef struct {
  size_t size;
  const char *kind, *name;
  uint64_t start_ns, end_ns;
  int device;
  uint64_t context_id, stream_id, correlation, thread, bytes;
  uint32_t grid[3], block[3];
  uint32_t dynamic_shared, static_shared, registers;
  int copy_kind; /* CUPTI's: 1 HtoD 2 DtoH 8 DtoD 9 HtoH 10 PtoP */
  int result;
  uint64_t graph_id, graph_node_id; /* 0 outside graphs; a graph launch's own record has node 0 */
  uint64_t serial;                  /* of the execution; 0 for records of calls and waits */
  uint32_t cluster[3], local_bytes, value;
  int src_memory, dst_memory, src_device, dst_device; /* CUPTI's memory kinds; devices of a copy or fill */
  uint64_t handle;                                    /* of the stream or event a wait is about */
} simgpu_record;
/* The callback may run under the driver's lock and must not call CUDA or block. Returns an id. */
int simgpu_subscribe(void (*callback)(void* user, const simgpu_record* record), void* user);
void simgpu_unsubscribe(int id);
/* Calls back for everything submitted and not finished, oldest first, under the driver's lock; start and end
 * are 0. Not from a subscriber's callback. */
void simgpu_unfinished(void (*callback)(void* user, const simgpu_record* record), void* user);
/* +1: from here API calls of this thread cost no virtual time and make no records and no callbacks, until -1.
 */
void simgpu_quiet(int change);
/* Entry (exit = 0) and exit (1) of every API function on the calling thread, without the driver's lock. One
 * subscriber. */
void simgpu_set_api_callback(void (*callback)(void* user, const char* function, int exit, int result,
                                              uint64_t correlation),
                             void* user);
/* A call of the runtime API, told by simgpu's libcudart around its body. Calls within another one do not
 * count. While somebody has set an API callback, all driver calls made inside have the runtime call's
 * correlation, and a record of kind `runtime` is made at its end. */
void simgpu_runtime_enter(const char* function);
void simgpu_runtime_exit(const char* function, int result);
/* As simgpu_set_api_callback, for the runtime API. */
void simgpu_set_runtime_callback(void (*callback)(void* user, const char* function, int exit, int result,
                                                  uint64_t correlation),
                                 void* user);
/* The ids in records, from CUgraph, CUgraphExec (that of the graph it came from) and CUgraphNode; 0 for other
 * values. */
uint64_t simgpu_graph_id(void* graph);
uint64_t simgpu_graph_exec_id(void* graph_exec);
uint64_t simgpu_graph_node_id(void* node);
uint64_t simgpu_correlation(void); /* of the API call now running on this thread */

/* Those of the above that sibling libraries call often and that neither put work into streams nor wait for
 * it. Data, not functions to be looked up one by one: an interposer that lets nothing pass before the driver
 * functions it does not know (shunt's) has no reason to step in, and what is really a driver's business
 * (simgpu_submit) it still meets. */
/* clang-format off */
#define SIMGPU_PRIVATE_MEMBERS(X) \
  X(subscribe) X(unsubscribe) X(set_api_callback) X(set_runtime_callback) X(unfinished) \
  X(quiet) X(host_ns) X(device_ns) X(graph_id) X(graph_exec_id) \
  X(graph_node_id) X(runtime_enter) X(runtime_exit) X(poke) X(op_start_ns) \
  X(op_fail) X(op_access) X(op_meet) X(host_pointer) X(export_memory) \
  X(box_index) X(link_bytes_per_s) X(null_clock)
/* clang-format on */
#ifdef __cplusplus
typedef struct {
  size_t size;
#define SIMGPU_MEMBER(name) decltype(&simgpu_##name) name;
  SIMGPU_PRIVATE_MEMBERS(SIMGPU_MEMBER)
#undef SIMGPU_MEMBER
} simgpu_private_table;
extern const simgpu_private_table simgpu_private;
#endif

#ifdef __cplusplus
}
#endif
#endif
