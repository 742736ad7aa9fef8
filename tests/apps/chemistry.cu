// Air chemistry of an n x n x n box of cells. Wind carries ten species, which mix with neighbouring cells and take part
// in 23 reactions with time scales from microseconds to days. Such stiff systems need an implicit solver: a Rosenbrock
// method of second order with a 10 x 10 system of equations in each of two stages. Each thread computes one cell, and
// the compiler decides which parts of the matrix are in registers.
//
// Reactions conserve nitrogen, so the program checks its sum over the box. The host recomputes some cells.
#include "check.cuh"

#include <algorithm>
#include <cmath>
#include <deque>

using std::exp;
using std::pow;

constexpr int SPECIES = 10;
enum Species { O3, NO, NO2, NO3, OH, HO2, H2O2, CO, HCHO, HNO3 };

// Number of molecules in a cm³ for each species, cell by cell along x, then y, then z.
struct Concentrations {
    const double *of[SPECIES];
};

// The periodic box, and the values common to all cells.
struct Box {
    int nx, ny, nz;
    // Cell size in m, time step in s, and the chemistry's steps per time step.
    double spacing, step;
    int pieces;
    // Wind, m/s, and mixing, m²/s.
    double wind_x, wind_y, wind_z, mixing;
    // Height of the sun above the horizon, sine; methane as a fraction of the air.
    double sun, methane;
};

// Rates of one cell, in units of molecules, cm³ and s.
struct Rates {
    double photolysis[7];
    double o3_no, ho2_no, oh_co, ho2_o3, oh_o3, ho2_ho2, oh_no2, hcho_oh, no2_o3, no3_no, h2o2_oh, oh_ho2, no3_hcho, oh_oh, oh_ch4;
};

// Rate of a reaction whose product has to lose its energy to a third molecule: Troe's interpolation between thin and
// dense air.
__host__ __device__ inline double falloff(double thin, double dense, double air) {
    const double ratio = thin * air / dense, logarithm = log10(ratio);
    return thin * air / (1.0 + ratio) * pow(0.6, 1.0 / (1.0 + logarithm * logarithm));
}

__host__ __device__ inline Rates rates_of(double temperature, double pressure, double vapour, double cloud, const Box &box) {
    const double air = 7.243e16 * pressure / temperature;
    Rates rate;
    // Light fades towards the horizon and below clouds.
    const double light = box.sun > 0.0 ? exp(-0.45 / (box.sun + 0.02)) * (1.0 - 0.7 * cloud) : 0.0;
    const double at_noon[7] = {1.4e-2, 5.5e-5, 1.2e-5, 4.6e-5, 6.9e-5, 2.5e-1, 9.0e-7};
    for (int i = 0; i < 7; ++i)
        rate.photolysis[i] = at_noon[i] * light;
    // Light splits ozone into excited oxygen atoms. Those that meet water become hydroxyl.
    const double water = vapour * air;
    rate.photolysis[1] *= 1.63e-10 * water / (1.63e-10 * water + 2.9e-11 * air);
    const double inverse = 1.0 / temperature, scaled = temperature / 300.0;
    rate.o3_no = 3.0e-12 * exp(-1500.0 * inverse);
    rate.ho2_no = 3.3e-12 * exp(270.0 * inverse);
    rate.oh_co = 1.5e-13 * (1.0 + 0.6 * pressure / 101325.0);
    rate.ho2_o3 = 1.0e-14 * exp(-490.0 * inverse);
    rate.oh_o3 = 1.7e-12 * exp(-940.0 * inverse);
    rate.ho2_ho2 = (3.0e-13 * exp(460.0 * inverse) + 2.1e-33 * air * exp(920.0 * inverse)) * (1.0 + 1.4e-21 * water * exp(2200.0 * inverse));
    rate.oh_no2 = falloff(1.8e-30 * pow(scaled, -3.0), 2.8e-11, air);
    rate.hcho_oh = 5.5e-12 * exp(125.0 * inverse);
    rate.no2_o3 = 1.2e-13 * exp(-2450.0 * inverse);
    rate.no3_no = 1.5e-11 * exp(170.0 * inverse);
    rate.h2o2_oh = 1.8e-12;
    rate.oh_ho2 = 4.8e-11 * exp(250.0 * inverse);
    rate.no3_hcho = 5.8e-16;
    rate.oh_oh = falloff(6.9e-31 / scaled, 2.6e-11, air);
    rate.oh_ch4 = 2.45e-12 * exp(-1775.0 * inverse) * box.methane * air;
    return rate;
}

// Speed of each reaction between two species, or of one species with light.
struct Speeds {
    double no2_light, o3_light, h2o2_light, hcho_radicals, hcho_molecules, no3_light, hno3_light;
    double o3_no, ho2_no, oh_co, ho2_o3, oh_o3, ho2_ho2, oh_no2, hcho_oh, no2_o3, no3_no, h2o2_oh, oh_ho2, no3_hcho, oh_oh, oh_ch4;
};

// The rates of change of the species, given the speeds. Linear in them, so also usable for derivatives.
__host__ __device__ inline void balance(const Speeds &r, double *change) {
    change[O3] = r.no2_light + r.no3_light - r.o3_light - r.o3_no - r.ho2_o3 - r.oh_o3 - r.no2_o3;
    change[NO] = r.no2_light - r.o3_no - r.ho2_no - r.no3_no;
    change[NO2] = r.o3_no + r.ho2_no + r.no3_light + r.hno3_light + 2.0 * r.no3_no - r.no2_light - r.oh_no2 - r.no2_o3;
    change[NO3] = r.no2_o3 - r.no3_no - r.no3_light - r.no3_hcho;
    change[OH] = 2.0 * r.o3_light + 2.0 * r.h2o2_light + r.hno3_light + r.ho2_no + r.ho2_o3 - r.oh_co - r.oh_o3 - r.oh_no2 - r.hcho_oh -
                 r.h2o2_oh - r.oh_ho2 - 2.0 * r.oh_oh - r.oh_ch4;
    change[HO2] = r.oh_co + r.oh_o3 + r.hcho_oh + r.h2o2_oh + r.no3_hcho + r.oh_ch4 + 2.0 * r.hcho_radicals - r.ho2_no - r.ho2_o3 -
                  2.0 * r.ho2_ho2 - r.oh_ho2;
    change[H2O2] = r.ho2_ho2 + r.oh_oh - r.h2o2_light - r.h2o2_oh;
    change[CO] = r.hcho_radicals + r.hcho_molecules + r.hcho_oh + r.no3_hcho - r.oh_co;
    change[HCHO] = r.oh_ch4 - r.hcho_radicals - r.hcho_molecules - r.hcho_oh - r.no3_hcho;
    change[HNO3] = r.oh_no2 + r.no3_hcho - r.hno3_light;
}

__host__ __device__ inline void production(const Rates &k, const double *c, double *change) {
    Speeds r;
    r.no2_light = k.photolysis[0] * c[NO2];
    r.o3_light = k.photolysis[1] * c[O3];
    r.h2o2_light = k.photolysis[2] * c[H2O2];
    r.hcho_radicals = k.photolysis[3] * c[HCHO];
    r.hcho_molecules = k.photolysis[4] * c[HCHO];
    r.no3_light = k.photolysis[5] * c[NO3];
    r.hno3_light = k.photolysis[6] * c[HNO3];
    r.o3_no = k.o3_no * c[O3] * c[NO];
    r.ho2_no = k.ho2_no * c[HO2] * c[NO];
    r.oh_co = k.oh_co * c[OH] * c[CO];
    r.ho2_o3 = k.ho2_o3 * c[HO2] * c[O3];
    r.oh_o3 = k.oh_o3 * c[OH] * c[O3];
    r.ho2_ho2 = k.ho2_ho2 * c[HO2] * c[HO2];
    r.oh_no2 = k.oh_no2 * c[OH] * c[NO2];
    r.hcho_oh = k.hcho_oh * c[HCHO] * c[OH];
    r.no2_o3 = k.no2_o3 * c[NO2] * c[O3];
    r.no3_no = k.no3_no * c[NO3] * c[NO];
    r.h2o2_oh = k.h2o2_oh * c[H2O2] * c[OH];
    r.oh_ho2 = k.oh_ho2 * c[OH] * c[HO2];
    r.no3_hcho = k.no3_hcho * c[NO3] * c[HCHO];
    r.oh_oh = k.oh_oh * c[OH] * c[OH];
    r.oh_ch4 = k.oh_ch4 * c[OH];
    balance(r, change);
}

// One column of the Jacobian: the derivative of every species' change with respect to one species.
__host__ __device__ inline void sensitivity(const Rates &k, const double *c, int species, double *change) {
    auto d = [species](int other) { return species == other ? 1.0 : 0.0; };
    Speeds r;
    r.no2_light = k.photolysis[0] * d(NO2);
    r.o3_light = k.photolysis[1] * d(O3);
    r.h2o2_light = k.photolysis[2] * d(H2O2);
    r.hcho_radicals = k.photolysis[3] * d(HCHO);
    r.hcho_molecules = k.photolysis[4] * d(HCHO);
    r.no3_light = k.photolysis[5] * d(NO3);
    r.hno3_light = k.photolysis[6] * d(HNO3);
    auto both = [&](double rate, int a, int b) { return rate * (d(a) * c[b] + d(b) * c[a]); };
    r.o3_no = both(k.o3_no, O3, NO);
    r.ho2_no = both(k.ho2_no, HO2, NO);
    r.oh_co = both(k.oh_co, OH, CO);
    r.ho2_o3 = both(k.ho2_o3, HO2, O3);
    r.oh_o3 = both(k.oh_o3, OH, O3);
    r.ho2_ho2 = both(k.ho2_ho2, HO2, HO2);
    r.oh_no2 = both(k.oh_no2, OH, NO2);
    r.hcho_oh = both(k.hcho_oh, HCHO, OH);
    r.no2_o3 = both(k.no2_o3, NO2, O3);
    r.no3_no = both(k.no3_no, NO3, NO);
    r.h2o2_oh = both(k.h2o2_oh, H2O2, OH);
    r.oh_ho2 = both(k.oh_ho2, OH, HO2);
    r.no3_hcho = both(k.no3_hcho, NO3, HCHO);
    r.oh_oh = both(k.oh_oh, OH, OH);
    r.oh_ch4 = k.oh_ch4 * d(OH);
    balance(r, change);
}

// Factors a matrix in place. Its dominant diagonal is at least one, so pivoting is unnecessary.
__host__ __device__ inline void factor(double (&matrix)[SPECIES][SPECIES]) {
#pragma unroll
    for (int pivot = 0; pivot < SPECIES; ++pivot) {
        const double inverse = 1.0 / matrix[pivot][pivot];
#pragma unroll
        for (int row = pivot + 1; row < SPECIES; ++row) {
            const double multiple = matrix[row][pivot] * inverse;
            matrix[row][pivot] = multiple;
#pragma unroll
            for (int column = pivot + 1; column < SPECIES; ++column)
                matrix[row][column] -= multiple * matrix[pivot][column];
        }
    }
}

__host__ __device__ inline void solve(const double (&matrix)[SPECIES][SPECIES], double *x) {
#pragma unroll
    for (int row = 1; row < SPECIES; ++row)
#pragma unroll
        for (int column = 0; column < row; ++column)
            x[row] -= matrix[row][column] * x[column];
#pragma unroll
    for (int row = SPECIES - 1; row >= 0; --row) {
#pragma unroll
        for (int column = row + 1; column < SPECIES; ++column)
            x[row] -= matrix[row][column] * x[column];
        x[row] /= matrix[row][row];
    }
}

// The second-order L-stable Rosenbrock method of two stages.
__host__ __device__ inline void react(const Rates &rates, double *c, double step, int pieces) {
    const double gamma = 1.70710678118654752, h = step / pieces;
    for (int piece = 0; piece < pieces; ++piece) {
        double matrix[SPECIES][SPECIES], first[SPECIES], second[SPECIES], between[SPECIES];
#pragma unroll
        for (int species = 0; species < SPECIES; ++species) {
            double change[SPECIES];
            sensitivity(rates, c, species, change);
#pragma unroll
            for (int row = 0; row < SPECIES; ++row)
                matrix[row][species] = (row == species ? 1.0 : 0.0) - gamma * h * change[row];
        }
        factor(matrix);
        production(rates, c, first);
        solve(matrix, first);
#pragma unroll
        for (int species = 0; species < SPECIES; ++species)
            between[species] = c[species] + h * first[species];
        production(rates, between, second);
#pragma unroll
        for (int species = 0; species < SPECIES; ++species)
            second[species] -= 2.0 * first[species];
        solve(matrix, second);
#pragma unroll
        for (int species = 0; species < SPECIES; ++species)
            c[species] += h * (1.5 * first[species] + 0.5 * second[species]);
    }
}

// The effect of wind and mixing on a species: upwind differences over six neighbours, conserving mass.
__host__ __device__ inline double transported(const double *field, int x, int y, int z, const Box &box) {
    auto at = [&](int i, int j, int k) { return field[(static_cast<size_t>(k) * box.ny + j) * box.nx + i]; };
    const int west = x > 0 ? x - 1 : box.nx - 1, east = x + 1 < box.nx ? x + 1 : 0;
    const int south = y > 0 ? y - 1 : box.ny - 1, north = y + 1 < box.ny ? y + 1 : 0;
    const int below = z > 0 ? z - 1 : box.nz - 1, above = z + 1 < box.nz ? z + 1 : 0;
    const double here = at(x, y, z), courant = box.step / box.spacing, mixed = box.mixing * courant / box.spacing;
    double result = here;
    auto along = [&](double wind, double before, double after) {
        result += mixed * (before - 2.0 * here + after);
        result -= courant * (wind > 0.0 ? wind * (here - before) : wind * (after - here));
    };
    along(box.wind_x, at(west, y, z), at(east, y, z));
    along(box.wind_y, at(x, south, z), at(x, north, z));
    along(box.wind_z, at(x, y, below), at(x, y, above));
    return result;
}

__host__ __device__ inline void step_cell(const Concentrations &before, const Box &box, int x, int y, int z, double temperature,
                                          double pressure, double vapour, double cloud, double *c) {
#pragma unroll
    for (int species = 0; species < SPECIES; ++species)
        c[species] = transported(before.of[species], x, y, z, box);
    react(rates_of(temperature, pressure, vapour, cloud, box), c, box.step, box.pieces);
}

__global__ void chemistry(const double *o3, const double *no, const double *no2, const double *no3, const double *oh, const double *ho2,
                          const double *h2o2, const double *co, const double *hcho, const double *hno3, double *o3_after, double *no_after,
                          double *no2_after, double *no3_after, double *oh_after, double *ho2_after, double *h2o2_after, double *co_after,
                          double *hcho_after, double *hno3_after, const double *temperature, const double *pressure, const double *vapour,
                          const double *cloud, int nx, int ny, int nz, double spacing, double step, int pieces, double wind_x,
                          double wind_y, double wind_z, double mixing, double sun, double methane) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz)
        return;
    const Concentrations before = {{o3, no, no2, no3, oh, ho2, h2o2, co, hcho, hno3}};
    const Box box = {nx, ny, nz, spacing, step, pieces, wind_x, wind_y, wind_z, mixing, sun, methane};
    const size_t here = (static_cast<size_t>(z) * ny + y) * nx + x;
    double c[SPECIES];
    step_cell(before, box, x, y, z, temperature[here], pressure[here], vapour[here], cloud[here], c);
    o3_after[here] = c[O3];
    no_after[here] = c[NO];
    no2_after[here] = c[NO2];
    no3_after[here] = c[NO3];
    oh_after[here] = c[OH];
    ho2_after[here] = c[HO2];
    h2o2_after[here] = c[H2O2];
    co_after[here] = c[CO];
    hcho_after[here] = c[HCHO];
    hno3_after[here] = c[HNO3];
}

int main(int argc, char **argv) {
    const int n = static_cast<int>(size_argument(argc, argv, 10));
    const Box box = {n, n, n, 500.0, 20.0, 4, 6.0, -3.0, 0.5, 30.0, 0.7, 1.85e-6};
    const size_t cells = static_cast<size_t>(n) * n * n;
    // Minimal and maximal molecules per cm³: clean air and a city's.
    const double least[SPECIES] = {6e11, 2e8, 1e9, 1e5, 5e5, 1e8, 1e10, 2e12, 5e9, 2e9};
    const double most[SPECIES] = {1.6e12, 2e10, 6e10, 1e7, 6e6, 8e8, 5e10, 8e12, 6e10, 3e10};
    std::vector<std::vector<double>> before(SPECIES, std::vector<double>(cells)), air(4, std::vector<double>(cells));
    for (size_t cell = 0; cell < cells; ++cell) {
        const unsigned seed = static_cast<unsigned>(cell) * 16u;
        const double height = static_cast<double>(cell / (static_cast<size_t>(n) * n)) / n;
        for (unsigned species = 0; species < SPECIES; ++species)
            before[species][cell] = least[species] + (most[species] - least[species]) * unit_float(seed + species);
        air[0][cell] = 298.0 - 30.0 * height + 4.0 * unit_float(seed + 10);
        air[1][cell] = 101325.0 * std::exp(-0.55 * height);
        air[2][cell] = 0.02 * std::exp(-2.0 * height) * (0.4 + 0.6 * unit_float(seed + 11));
        air[3][cell] = unit_float(seed + 12) < 0.3f ? unit_float(seed + 13) : 0.0;
    }
    // The arrays stay in place.
    std::deque<DeviceArray<double>> from, to, sky;
    for (int species = 0; species < SPECIES; ++species) {
        from.emplace_back(before[species]);
        to.emplace_back(cells);
        to.back().clear();
    }
    for (const std::vector<double> &field : air)
        sky.emplace_back(field);

    const dim3 block(32, 4, 2), grid(blocks_for(n, block.x), blocks_for(n, block.y), blocks_for(n, block.z));
    chemistry<<<grid, block>>>(from[O3].get(), from[NO].get(), from[NO2].get(), from[NO3].get(), from[OH].get(), from[HO2].get(),
                               from[H2O2].get(), from[CO].get(), from[HCHO].get(), from[HNO3].get(), to[O3].get(), to[NO].get(),
                               to[NO2].get(), to[NO3].get(), to[OH].get(), to[HO2].get(), to[H2O2].get(), to[CO].get(), to[HCHO].get(),
                               to[HNO3].get(), sky[0].get(), sky[1].get(), sky[2].get(), sky[3].get(), box.nx, box.ny, box.nz,
                               box.spacing, box.step, box.pieces, box.wind_x, box.wind_y, box.wind_z, box.mixing, box.sun, box.methane);
    LAUNCH_OK();

    std::vector<std::vector<double>> after;
    for (const DeviceArray<double> &species : to)
        after.push_back(species.download());
    bool right = true;
    double nitrogen_before = 0.0, nitrogen_after = 0.0;
    for (int species : {NO, NO2, NO3, HNO3})
        for (size_t cell = 0; cell < cells; ++cell) {
            nitrogen_before += before[species][cell];
            nitrogen_after += after[species][cell];
        }
    right = right && std::fabs(nitrogen_after / nitrogen_before - 1.0) < 1e-11;
    Concentrations start;
    for (int species = 0; species < SPECIES; ++species)
        start.of[species] = before[species].data();
    for (size_t cell = 0; cell < cells; cell += std::max<size_t>(cells / 4096, 1)) {
        const int x = static_cast<int>(cell % n), y = static_cast<int>(cell / n % n), z = static_cast<int>(cell / n / n);
        double expected[SPECIES];
        step_cell(start, box, x, y, z, air[0][cell], air[1][cell], air[2][cell], air[3][cell], expected);
        for (int species = 0; species < SPECIES; ++species) {
            right = right && expected[species] > 0.0 && std::fabs(after[species][cell] / expected[species] - 1.0) < 1e-7;
            right = right && after[species][cell] != before[species][cell];
        }
    }
    return finish("chemistry", right, n);
}
