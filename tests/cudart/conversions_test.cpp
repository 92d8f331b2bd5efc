// How descriptions of the runtime API arrive at the driver: arrays, 2D and 3D copies, textures, graph nodes,
// launch attributes; and how they come back.
#include <cuda_runtime_api.h>

#include "tests/cudart/fake_driver.h"
#include "tests/cudart/in_child.h"

using namespace simgpu::cudart::testing;  // NOLINT: a test of that namespace

namespace {

constexpr cudaChannelFormatDesc kFloat2 = {32, 32, 0, 0, cudaChannelFormatKindFloat};

cudaArray_t make_array(size_t width, size_t height, size_t depth, const cudaChannelFormatDesc& format,
                       unsigned flags = 0) {
  cudaArray_t array = nullptr;
  EXPECT_EQ(cudaMalloc3DArray(&array, &format, {width, height, depth}, flags), cudaSuccess);
  return array;
}

TEST(Arrays, FormatsBothWays) {
  in_child({}, [] {
    struct Case {
      cudaChannelFormatDesc description;
      int format;
      unsigned channels;
    };
    const Case cases[] = {
        {{8, 0, 0, 0, cudaChannelFormatKindUnsigned}, CU_AD_FORMAT_UNSIGNED_INT8, 1},
        {{16, 16, 16, 16, cudaChannelFormatKindSigned}, CU_AD_FORMAT_SIGNED_INT16, 4},
        {{16, 0, 0, 0, cudaChannelFormatKindFloat}, CU_AD_FORMAT_HALF, 1},
        {kFloat2, CU_AD_FORMAT_FLOAT, 2},
        {{32, 32, 32, 32, cudaChannelFormatKindUnsigned}, CU_AD_FORMAT_UNSIGNED_INT32, 4},
        {{8, 8, 0, 0, cudaChannelFormatKindSignedNormalized8X2}, CU_AD_FORMAT_SNORM_INT8X2, 2},
        {{8, 8, 8, 8, cudaChannelFormatKindUnsignedBlockCompressed7}, CU_AD_FORMAT_BC7_UNORM, 4},
        {{16, 16, 16, 0, cudaChannelFormatKindSignedBlockCompressed6H}, CU_AD_FORMAT_BC6H_SF16, 3},
    };
    for (const Case& c : cases) {
      cudaArray_t array = make_array(16, 8, 0, c.description, cudaArraySurfaceLoadStore);
      EXPECT_EQ(last_call(), "call cuArray3DCreate 16 8 0 " + std::to_string(c.format) + " " +
                                 std::to_string(c.channels) + " 2");
      cudaChannelFormatDesc back{};
      cudaExtent extent{};
      unsigned flags = 0;
      EXPECT_EQ(cudaArrayGetInfo(&back, &extent, &flags, array), cudaSuccess);
      EXPECT_EQ(back.x, c.description.x);
      EXPECT_EQ(back.y, c.description.y);
      EXPECT_EQ(back.z, c.description.z);
      EXPECT_EQ(back.w, c.description.w);
      EXPECT_EQ(back.f, c.description.f);
      EXPECT_EQ(extent.height, 8u);
      EXPECT_EQ(flags, 2u);
    }
    const cudaChannelFormatDesc impossible[] = {
        {8, 8, 8, 0, cudaChannelFormatKindUnsigned},
        {8, 16, 0, 0, cudaChannelFormatKindUnsigned},
        {0, 8, 0, 0, cudaChannelFormatKindUnsigned},
        {64, 0, 0, 0, cudaChannelFormatKindFloat},
        {8, 0, 0, 0, cudaChannelFormatKindFloat},
        {32, 0, 0, 0, cudaChannelFormatKindNone},
        {16, 0, 0, 0, cudaChannelFormatKindSignedNormalized8X1},
    };
    for (const cudaChannelFormatDesc& description : impossible) {
      cudaArray_t array = nullptr;
      EXPECT_EQ(cudaMallocArray(&array, &description, 4, 4), cudaErrorInvalidChannelDescriptor);
    }
  });
}

TEST(Copies2D, SidesFollowTheKindAndArraysTheirOwn) {
  in_child({}, [] {
    char a[64] = {}, b[64] = {};
    EXPECT_EQ(cudaMemcpy2D(a, 16, b, 8, 8, 4, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(last_call(), "call cuMemcpy2DUnaligned from 2 0 0 0 1 0 8 to 1 0 0 1 0 0 16 size 8 4");
    EXPECT_EQ(cudaMemcpy2D(a, 16, b, 8, 8, 4, cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(last_call(), "call cuMemcpy2DUnaligned from 4 0 0 0 1 0 8 to 4 0 0 0 1 0 16 size 8 4");
    cudaArray_t array = make_array(8, 8, 0, kFloat2);
    EXPECT_EQ(cudaMemcpy2DToArray(array, 24, 3, b, 16, 16, 2, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(last_call(), "call cuMemcpy2DUnaligned from 1 0 0 1 0 0 16 to 3 24 3 0 0 1 0 size 16 2");
    EXPECT_EQ(cudaMemcpy2DFromArray(b, 16, array, 8, 1, 16, 2, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(last_call(), "call cuMemcpy2DUnaligned from 3 8 1 0 0 1 0 to 1 0 0 1 0 0 16 size 16 2");
  });
}

TEST(Copies2D, LinearRunsBecomeRectangles) {
  in_child({}, [] {
    char data[512] = {};
    cudaArray_t array = make_array(4, 8, 0, kFloat2);  // rows of 32 bytes
    // Six bytes short of a row end, two whole rows, ten bytes of the next.
    EXPECT_EQ(cudaMemcpyToArray(array, 26, 1, data, 6 + 64 + 10, cudaMemcpyHostToDevice), cudaSuccess);
    const std::string log = driver_log();
    EXPECT_EQ(times(log, "call cuMemcpy2DUnaligned"), 3);
    EXPECT_NE(log.find("to 3 26 1 0 0 1 0 size 6 1\n"), std::string::npos) << log;
    EXPECT_NE(log.find("to 3 0 2 0 0 1 0 size 32 2\n"), std::string::npos);
    EXPECT_NE(log.find("to 3 0 4 0 0 1 0 size 10 1\n"), std::string::npos);
    // Within one row: one rectangle.
    EXPECT_EQ(cudaMemcpyFromArray(data, array, 4, 0, 8, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(times(driver_log(), "call cuMemcpy2DUnaligned"), 4);
    EXPECT_EQ(cudaMemcpyToArray(array, 32, 0, data, 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    // Between arrays of different widths, pieces end where either row ends.
    cudaArray_t wide = make_array(8, 8, 0, kFloat2);  // rows of 64 bytes
    EXPECT_EQ(cudaMemcpyArrayToArray(wide, 48, 0, array, 0, 0, 64, cudaMemcpyDeviceToDevice), cudaSuccess);
    EXPECT_EQ(times(driver_log(), "call cuMemcpy2DUnaligned"), 7);
  });
}

TEST(Copies3D, UnitsAreTheArraysElements) {
  in_child({}, [] {
    char host[4096] = {};
    cudaMemcpy3DParms copy{};
    copy.srcPtr = {host, 64, 64, 4};
    copy.srcPos = {3, 1, 0};
    copy.dstArray = make_array(16, 8, 4, kFloat2);
    copy.dstPos = {2, 5, 1};
    copy.extent = {4, 2, 3};
    copy.kind = cudaMemcpyHostToDevice;
    EXPECT_EQ(cudaMemcpy3D(&copy), cudaSuccess);
    EXPECT_EQ(last_call(), "call cuMemcpy3D from 1 3 1 1 0 0 64 to 3 16 5 0 0 1 0 size 32 2 3 0 4 1 0");
    // No array: bytes.
    copy.dstArray = nullptr;
    copy.dstPtr = {host + 2048, 32, 32, 8};
    copy.dstPos = {};
    copy.kind = cudaMemcpyDefault;
    EXPECT_EQ(cudaMemcpy3D(&copy), cudaSuccess);
    EXPECT_EQ(last_call(), "call cuMemcpy3D from 4 3 1 0 1 0 64 to 4 0 0 0 1 0 32 size 4 2 3 0 4 0 8");
    copy.dstPtr.pitch = 3;
    EXPECT_EQ(cudaMemcpy3D(&copy), cudaErrorInvalidPitchValue);
    copy.dstPtr = {};
    EXPECT_EQ(cudaMemcpy3D(&copy), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy3D(nullptr), cudaErrorInvalidValue);
    // Arrays whose elements differ in size.
    copy.srcPtr = {};
    copy.srcArray = make_array(16, 8, 4, kFloat2);
    copy.dstArray = make_array(16, 8, 4, {8, 0, 0, 0, cudaChannelFormatKindUnsigned});
    EXPECT_EQ(cudaMemcpy3D(&copy), cudaErrorInvalidValue);
    copy.kind = static_cast<cudaMemcpyKind>(77);
    EXPECT_EQ(cudaMemcpy3D(&copy), cudaErrorInvalidMemcpyDirection);
  });
}

TEST(Fills, SlicesWithAndWithoutGaps) {
  in_child({}, [] {
    char memory[64] = {};
    EXPECT_EQ(cudaMemset3D({memory, 16, 16, 5}, 0x1ff, {8, 5, 3}), cudaSuccess);
    EXPECT_EQ(last_call(), "call cuMemsetD2D8 16 255 8 15");
    const int before = times(driver_log(), "call cuMemsetD2D8");
    EXPECT_EQ(cudaMemset3D({memory, 16, 16, 5}, 1, {8, 2, 3}), cudaSuccess);
    EXPECT_EQ(times(driver_log(), "call cuMemsetD2D8"), before + 3);
    EXPECT_EQ(last_call(), "call cuMemsetD2D8 16 1 8 2");
    EXPECT_EQ(cudaMemset3D({memory, 16, 16, 5}, 1, {8, 6, 3}), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemset2D(memory, 4, 1, 8, 2), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemset3D({memory, 16, 16, 5}, 1, {0, 2, 3}), cudaSuccess);
  });
}

TEST(Textures, DescriptionsBothWays) {
  in_child({}, [] {
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = &resource;
    resource.res.pitch2D.desc = {8, 8, 8, 8, cudaChannelFormatKindUnsigned};
    resource.res.pitch2D.width = 32;
    resource.res.pitch2D.height = 16;
    resource.res.pitch2D.pitchInBytes = 256;
    cudaTextureDesc texture{};
    texture.addressMode[0] = cudaAddressModeMirror;
    texture.addressMode[1] = cudaAddressModeBorder;
    texture.addressMode[2] = cudaAddressModeClamp;
    texture.filterMode = cudaFilterModeLinear;
    texture.readMode = cudaReadModeNormalizedFloat;
    texture.normalizedCoords = 1;
    texture.sRGB = 1;
    texture.borderColor[2] = 0.25f;
    texture.maxAnisotropy = 4;
    texture.seamlessCubemap = 1;
    cudaTextureObject_t object = 0;
    EXPECT_EQ(cudaCreateTextureObject(&object, &resource, &texture, nullptr), cudaSuccess);
    EXPECT_EQ(last_call(),
              "call cuTexObjectCreate 3 1 4 address 2 3 1 filter 1 flags 82 aniso 4 border 0.25 view 0");
    cudaResourceDesc resource_back{};
    EXPECT_EQ(cudaGetTextureObjectResourceDesc(&resource_back, object), cudaSuccess);
    EXPECT_EQ(resource_back.resType, cudaResourceTypePitch2D);
    EXPECT_EQ(resource_back.res.pitch2D.devPtr, &resource);
    EXPECT_EQ(resource_back.res.pitch2D.desc.w, 8);
    EXPECT_EQ(resource_back.res.pitch2D.desc.f, cudaChannelFormatKindUnsigned);
    EXPECT_EQ(resource_back.res.pitch2D.pitchInBytes, 256u);
    cudaTextureDesc texture_back{};
    EXPECT_EQ(cudaGetTextureObjectTextureDesc(&texture_back, object), cudaSuccess);
    EXPECT_EQ(texture_back.addressMode[1], cudaAddressModeBorder);
    EXPECT_EQ(texture_back.readMode, cudaReadModeNormalizedFloat);
    EXPECT_EQ(texture_back.sRGB, 1);
    EXPECT_EQ(texture_back.normalizedCoords, 1);
    EXPECT_EQ(texture_back.seamlessCubemap, 1);
    EXPECT_EQ(texture_back.disableTrilinearOptimization, 0);
    // Reading elements as they are is the flag's absence here and its presence there.
    texture = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.desc = {32, 0, 0, 0, cudaChannelFormatKindSigned};
    EXPECT_EQ(cudaCreateTextureObject(&object, &resource, &texture, nullptr), cudaSuccess);
    EXPECT_EQ(last_call(),
              "call cuTexObjectCreate 2 10 1 address 0 0 0 filter 0 flags 1 aniso 0 border 0 view 0");
    resource.res.linear.desc = {32, 32, 32, 0, cudaChannelFormatKindSigned};
    EXPECT_EQ(cudaCreateTextureObject(&object, &resource, &texture, nullptr),
              cudaErrorInvalidChannelDescriptor);
    EXPECT_EQ(cudaCreateTextureObject(&object, nullptr, &texture, nullptr), cudaErrorInvalidValue);
  });
}

TEST(Graphs, KernelNodesNameTheHostFunction) {
  in_child({}, [] {
    Registered module;
    cudaKernelNodeParams parameters{};
    parameters.func = &module.kernel_host;
    parameters.gridDim = dim3(3);
    parameters.blockDim = dim3(1, 1, 9);
    parameters.sharedMemBytes = 128;
    void* arguments[] = {&module};
    parameters.kernelParams = arguments;
    cudaGraphNode_t node = nullptr;
    EXPECT_EQ(cudaGraphAddKernelNode(&node, nullptr, nullptr, 0, &parameters), cudaSuccess);
    EXPECT_EQ(last_call(), "call cuGraphAddKernelNode 3 9 128");
    cudaKernelNodeParams back{};
    EXPECT_EQ(cudaGraphKernelNodeGetParams(node, &back), cudaSuccess);
    EXPECT_EQ(back.func, &module.kernel_host);
    EXPECT_EQ(back.blockDim.z, 9u);
    EXPECT_EQ(back.kernelParams, arguments);
    char nobody = 0;
    parameters.func = &nobody;
    EXPECT_EQ(cudaGraphAddKernelNode(&node, nullptr, nullptr, 0, &parameters),
              cudaErrorInvalidDeviceFunction);
    EXPECT_EQ(cudaGraphAddKernelNode(&node, nullptr, nullptr, 0, nullptr), cudaErrorInvalidValue);
  });
}

TEST(Graphs, CopyNodesOfEveryForm) {
  in_child({}, [] {
    Registered module;
    char host[64] = {};
    cudaGraphNode_t node = nullptr;
    EXPECT_EQ(
        cudaGraphAddMemcpyNode1D(&node, nullptr, nullptr, 0, host, host + 32, 32, cudaMemcpyDeviceToHost),
        cudaSuccess);
    EXPECT_EQ(last_call(),
              "call cuGraphAddMemcpyNode from 2 0 0 0 1 0 32 to 1 0 0 1 0 0 32 size 32 1 1 context 1");
    cudaMemcpy3DParms back{};
    EXPECT_EQ(cudaGraphMemcpyNodeGetParams(node, &back), cudaSuccess);
    EXPECT_EQ(back.kind, cudaMemcpyDeviceToHost);
    EXPECT_EQ(back.dstPtr.ptr, host);
    EXPECT_EQ(back.extent.width, 32u);
    EXPECT_EQ(cudaGraphAddMemcpyNodeToSymbol(&node, nullptr, nullptr, 0, &module.variable_host, host, 16, 48,
                                             cudaMemcpyHostToDevice),
              cudaSuccess);
    EXPECT_EQ(last_call(),
              "call cuGraphAddMemcpyNode from 1 0 0 1 0 0 16 to 2 0 0 0 1 0 16 size 16 1 1 context 1");
    EXPECT_EQ(cudaGraphAddMemcpyNodeToSymbol(&node, nullptr, nullptr, 0, &module.variable_host, host, 17, 48,
                                             cudaMemcpyHostToDevice),
              cudaErrorInvalidValue);
    EXPECT_EQ(cudaGraphAddMemcpyNodeFromSymbol(&node, nullptr, nullptr, 0, host, &module.variable_host, 4, 0,
                                               cudaMemcpyHostToDevice),
              cudaErrorInvalidMemcpyDirection);
  });
}

TEST(Graphs, NodesOfAnyKind) {
  in_child({}, [] {
    Registered module;
    cudaGraphNode_t node = nullptr;
    cudaGraphNodeParams parameters{};
    parameters.type = cudaGraphNodeTypeKernel;
    parameters.kernel.func = &module.kernel_host;
    parameters.kernel.gridDim = dim3(1, 6);
    parameters.kernel.blockDim = dim3(1);
    EXPECT_EQ(cudaGraphAddNode(&node, nullptr, nullptr, nullptr, 0, &parameters), cudaSuccess);
    EXPECT_EQ(last_call(), "call cuGraphAddNode 0 6 1");
    char host[16] = {};
    parameters = {};
    parameters.type = cudaGraphNodeTypeMemcpy;
    parameters.memcpy.copyParams.srcPtr = {host, 8, 8, 1};
    parameters.memcpy.copyParams.dstPtr = {host + 8, 8, 8, 1};
    parameters.memcpy.copyParams.extent = {8, 1, 1};
    parameters.memcpy.copyParams.kind = cudaMemcpyHostToDevice;
    EXPECT_EQ(cudaGraphAddNode(&node, nullptr, nullptr, nullptr, 0, &parameters), cudaSuccess);
    EXPECT_EQ(last_call(), "call cuGraphAddNode 1 from 1 0 0 1 0 0 8 to 2 0 0 0 1 0 8 size 8 1 1");
    parameters = {};
    parameters.type = cudaGraphNodeTypeMemset;
    parameters.memset.width = 12;
    EXPECT_EQ(cudaGraphAddNode(&node, nullptr, nullptr, nullptr, 0, &parameters), cudaSuccess);
    EXPECT_EQ(last_call(), "call cuGraphAddNode 2 12 1");
    parameters = {};
    parameters.type = cudaGraphNodeTypeMemAlloc;
    parameters.alloc.bytesize = 64;
    EXPECT_EQ(cudaGraphAddNode(&node, nullptr, nullptr, nullptr, 0, &parameters), cudaSuccess);
    EXPECT_EQ(parameters.alloc.dptr, reinterpret_cast<void*>(0x7000));
  });
}

TEST(Launch, AttributesArriveAsTheyAre) {
  in_child({}, [] {
    Registered module;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 2;
    attribute.val.clusterDim.y = 3;
    attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(6);
    config.blockDim = dim3(32, 4);
    config.dynamicSmemBytes = 1024;
    config.attrs = &attribute;
    config.numAttrs = 1;
    EXPECT_EQ(cudaLaunchKernelExC(&config, &module.kernel_host, nullptr), cudaSuccess);
    EXPECT_EQ(last_call(), "call cuLaunchKernelEx 6 4 1024 1 4 3");
    EXPECT_EQ(cudaLaunchKernelExC(nullptr, &module.kernel_host, nullptr), cudaErrorInvalidValue);
  });
}

}  // namespace
