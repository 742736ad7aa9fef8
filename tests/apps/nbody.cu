// One step of n bodies with softened gravity between all pairs, with tiles of bodies in shared memory.
#include "check.cuh"

#include <cmath>

constexpr int TILE = 128;
constexpr float SOFTENING = 0.01f, STEP = 0.001f;

__global__ void nbody(const float4 *bodies, float4 *moved, float3 *velocities, int n) {
    __shared__ float4 tile[TILE];
    int i = blockIdx.x * TILE + threadIdx.x;
    float4 me = i < n ? bodies[i] : make_float4(0, 0, 0, 0);
    float3 pull = make_float3(0, 0, 0);
    for (int base = 0; base < n; base += TILE) {
        int other = base + threadIdx.x;
        tile[threadIdx.x] = other < n ? bodies[other] : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int j = 0; j < TILE; ++j) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + SOFTENING);
            float weight = tile[j].w * inverse * inverse * inverse;
            pull.x += dx * weight;
            pull.y += dy * weight;
            pull.z += dz * weight;
        }
        __syncthreads();
    }
    if (i >= n)
        return;
    float3 velocity = velocities[i];
    velocity.x += STEP * pull.x;
    velocity.y += STEP * pull.y;
    velocity.z += STEP * pull.z;
    velocities[i] = velocity;
    moved[i] = make_float4(me.x + STEP * velocity.x, me.y + STEP * velocity.y, me.z + STEP * velocity.z, me.w);
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 300));
    std::vector<float4> bodies(n);
    std::vector<float3> velocities(n);
    for (int i = 0; i < n; ++i) {
        bodies[i] = make_float4(unit_float(4 * i), unit_float(4 * i + 1), unit_float(4 * i + 2), 0.5f + unit_float(4 * i + 3));
        velocities[i] = make_float3(0.0f, 0.25f, -0.5f);
    }
    DeviceArray<float4> device_bodies(bodies), moved(n);
    DeviceArray<float3> device_velocities(velocities);
    nbody<<<blocks_for(n, TILE), TILE>>>(device_bodies.get(), moved.get(), device_velocities.get(), n);
    LAUNCH_OK();
    std::vector<float4> result = moved.download();
    bool right = true;
    for (int i = 0; i < n; ++i) {
        double x = 0, y = 0, z = 0;
        for (const float4 &other : bodies) {
            double dx = static_cast<double>(other.x) - bodies[i].x, dy = static_cast<double>(other.y) - bodies[i].y,
                   dz = static_cast<double>(other.z) - bodies[i].z;
            double weight = other.w / std::pow(dx * dx + dy * dy + dz * dz + SOFTENING, 1.5);
            x += dx * weight;
            y += dy * weight;
            z += dz * weight;
        }
        right = right && std::fabs(result[i].x - (bodies[i].x + STEP * (STEP * x))) < 1e-5 &&
                std::fabs(result[i].y - (bodies[i].y + STEP * (0.25 + STEP * y))) < 1e-5 &&
                std::fabs(result[i].z - (bodies[i].z + STEP * (-0.5 + STEP * z))) < 1e-5;
    }
    return finish("nbody", right, n);
}
