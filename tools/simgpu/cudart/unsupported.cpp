// Functions the runtime exports and this one refuses, each with its reason. They take no parameters here: the
// refusal needs none, and their types come from headers of systems that are not there.
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

#define UNSUPPORTED(name, reason)                                        \
  extern "C" __attribute__((visibility("default"))) cudaError_t name() { \
    return guarded([] { return cudaErrorNotSupported; });                \
  }

CUDART_API cudaError_t cudaGetExportTable(const void** table, const cudaUUID_t*) {
  // Private interfaces between NVIDIA's own libraries; not imitated.
  if (table != nullptr) *table = nullptr;
  return guarded([] { return cudaErrorNotSupported; });
}

UNSUPPORTED(cudaGLGetDevices, "OpenGL: no display device")
UNSUPPORTED(cudaGLSetGLDevice, "OpenGL: no display device")
UNSUPPORTED(cudaGLRegisterBufferObject, "OpenGL: no display device")
UNSUPPORTED(cudaGLUnregisterBufferObject, "OpenGL: no display device")
UNSUPPORTED(cudaGLMapBufferObject, "OpenGL: no display device")
UNSUPPORTED(cudaGLMapBufferObjectAsync, "OpenGL: no display device")
UNSUPPORTED(cudaGLUnmapBufferObject, "OpenGL: no display device")
UNSUPPORTED(cudaGLUnmapBufferObjectAsync, "OpenGL: no display device")
UNSUPPORTED(cudaGLSetBufferObjectMapFlags, "OpenGL: no display device")
UNSUPPORTED(cudaGraphicsGLRegisterBuffer, "OpenGL: no display device")
UNSUPPORTED(cudaGraphicsGLRegisterImage, "OpenGL: no display device")
UNSUPPORTED(cudaGraphicsEGLRegisterImage, "EGL: no display device")
UNSUPPORTED(cudaGraphicsResourceGetMappedEglFrame, "EGL: no display device")
UNSUPPORTED(cudaEventCreateFromEGLSync, "EGL: no display device")
UNSUPPORTED(cudaEGLStreamConsumerConnect, "EGL: no display device")
UNSUPPORTED(cudaEGLStreamConsumerConnectWithFlags, "EGL: no display device")
UNSUPPORTED(cudaEGLStreamConsumerDisconnect, "EGL: no display device")
UNSUPPORTED(cudaEGLStreamConsumerAcquireFrame, "EGL: no display device")
UNSUPPORTED(cudaEGLStreamConsumerReleaseFrame, "EGL: no display device")
UNSUPPORTED(cudaEGLStreamProducerConnect, "EGL: no display device")
UNSUPPORTED(cudaEGLStreamProducerDisconnect, "EGL: no display device")
UNSUPPORTED(cudaEGLStreamProducerPresentFrame, "EGL: no display device")
UNSUPPORTED(cudaEGLStreamProducerReturnFrame, "EGL: no display device")
UNSUPPORTED(cudaVDPAUGetDevice, "VDPAU: no display device")
UNSUPPORTED(cudaVDPAUSetVDPAUDevice, "VDPAU: no display device")
UNSUPPORTED(cudaGraphicsVDPAURegisterVideoSurface, "VDPAU: no display device")
UNSUPPORTED(cudaGraphicsVDPAURegisterOutputSurface, "VDPAU: no display device")
