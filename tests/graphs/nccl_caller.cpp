// A library called libnccl_*.so: the engine sees where a launch comes from.
extern "C" __attribute__((visibility("default"))) int somewhere_inside() { return 1; }
