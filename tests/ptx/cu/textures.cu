__global__ void read_textures(cudaTextureObject_t t1, cudaTextureObject_t t2, cudaTextureObject_t t3,
                              cudaSurfaceObject_t s, float4* out) {
  float x = threadIdx.x * 0.25f, y = blockIdx.x * 0.5f;
  float4 a = tex1Dfetch<float4>(t1, threadIdx.x);
  float4 b = tex2D<float4>(t2, x, y);
  float4 c = tex3D<float4>(t3, x, y, 0.125f);
  float4 d = tex2DLod<float4>(t2, x, y, 1.0f);
  float4 e = tex2Dgather<float4>(t2, x, y, 2);
  float4 f = texCubemap<float4>(t3, x, y, 1.0f);
  float4 g = tex2DLayered<float4>(t3, x, y, 3);
  float4 h = tex2DGrad<float4>(t2, x, y, make_float2(1, 2), make_float2(3, 4));
  int m = surf2Dread<int>(s, threadIdx.x * 4, 1, cudaBoundaryModeClamp);
  surf2Dwrite(m + 1, s, threadIdx.x * 4, 2, cudaBoundaryModeZero);
  surf3Dwrite(make_float4(1, 2, 3, 4), s, threadIdx.x * 16, 2, 3);
  out[threadIdx.x] = make_float4(a.x + b.y + e.x + h.x, c.z + d.w, f.x + g.y, m);
}
