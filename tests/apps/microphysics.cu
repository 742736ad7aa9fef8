// Bulk cloud microphysics of n atmospheric columns: vapour, cloud droplets, rain, cloud ice, snow and graupel fall,
// collide, freeze, melt, condense and evaporate. Each thread computes a column level by level from the top, like the
// schemes of weather models: dozens of arguments, and long branchy arithmetic with little reuse of values.
//
// Every rate goes to zero at the end of its branch, so results depend continuously on rounding. The final state of the
// columns is checked in three ways: water is conserved, enthalpy is conserved, and the host recomputes some columns
// with doubles.
#include "check.cuh"

#include <algorithm>
#include <cmath>

// Without std::, these names are the double versions on the host.
using std::exp;
using std::pow;
using std::sqrt;

constexpr int LEVELS = 48;
constexpr int BLOCK = 256;

// The state of all columns, level by level: element `level * columns + column`, level 0 at the ground. SI units, kg of
// water for each kg of air.
template <typename Real> struct Columns {
    Real *temperature, *vapour, *cloud, *rain, *ice, *snow, *graupel, *heating;
    const Real *pressure, *density, *thickness;
    // One value per column.
    const Real *droplets;
    const int *land;
    Real *rain_fallen, *snow_fallen, *graupel_fallen, *reflectivity, *liquid_path, *ice_path;
};

template <typename Real> struct Constants {
    // Heat capacity of air, gas constants of air and vapour, latent heats of evaporation and fusion, melting point.
    Real heat_capacity, gas_air, gas_vapour, evaporation, fusion, freezing;
    // Conversion rates, 1/s, and their thresholds.
    Real autoconversion_land, autoconversion_sea, autoconversion_threshold, accretion, aggregation, aggregation_threshold;
    // Size distributions: number of the smallest, 1/m^4, and density of a particle.
    Real rain_intercept, snow_intercept, graupel_intercept, water_density, snow_density, graupel_density;
    // Fall speed of a particle of diameter D: factor * D^exponent; and its mean's factor over the distribution.
    Real rain_speed, rain_exponent, snow_speed, snow_exponent, graupel_speed, graupel_exponent;
    Real rain_gamma, snow_gamma, graupel_gamma;
};

template <typename Real> __host__ __device__ Real clamped(Real x) { return x < Real(0) ? Real(0) : x > Real(1) ? Real(1) : x; }

template <typename Real> __host__ __device__ Real at_least(Real x, Real bound) { return x < bound ? bound : x; }

template <typename Real> __host__ __device__ Real at_most(Real x, Real bound) { return x > bound ? bound : x; }

// Mixing ratio of saturated air over water, by Bolton's fit of the vapour pressure, and over ice, by Magnus's.
template <typename Real> __host__ __device__ Real saturation_water(Real temperature, Real pressure, Real ratio) {
    Real vapour = Real(611.2) * exp(Real(17.67) * (temperature - Real(273.15)) / (temperature - Real(29.65)));
    vapour = at_most(vapour, Real(0.4) * pressure);
    return ratio * vapour / (pressure - vapour);
}

template <typename Real> __host__ __device__ Real saturation_ice(Real temperature, Real pressure, Real ratio) {
    Real vapour = Real(611.2) * exp(Real(21.875) * (temperature - Real(273.15)) / (temperature - Real(7.65)));
    vapour = at_most(vapour, Real(0.4) * pressure);
    return ratio * vapour / (pressure - vapour);
}

// Slope of an exponential size distribution, 1/m.
template <typename Real> __host__ __device__ Real slope(Real intercept, Real particle_density, Real content) {
    return sqrt(sqrt(Real(3.14159265358979) * particle_density * intercept / at_least(content, Real(1e-12))));
}

// Lets a species fall through a layer. The scheme is implicit, so any speed is stable. `flux` enters from above and
// leaves below, kg/m²/s.
template <typename Real>
__host__ __device__ void fall(Real &amount, Real &flux, Real speed, Real mass, Real thickness, Real step) {
    Real with_inflow = amount + step * flux / mass;
    amount = with_inflow / (Real(1) + step * speed / thickness);
    flux = amount * speed * mass / thickness;
}

// The factor that slows down processes that together would use up more than is available.
template <typename Real> __host__ __device__ Real share(Real available, Real wanted) {
    return wanted > available ? available / at_least(wanted, Real(1e-30)) : Real(1);
}

template <typename Real>
__host__ __device__ void advance(const Columns<Real> &at, const Constants<Real> &is, int column, int columns, int levels, int steps, Real step) {
    const Real pi = Real(3.14159265358979), zero = Real(0), one = Real(1);
    const Real ratio = is.gas_air / is.gas_vapour;
    const Real vapour_heat = is.evaporation / is.heat_capacity, fusion_heat = is.fusion / is.heat_capacity;
    const Real autoconversion = at.land[column] ? is.autoconversion_land : is.autoconversion_sea;
    const Real droplet_threshold = is.autoconversion_threshold * at.droplets[column];
    Real rain_fallen = zero, snow_fallen = zero, graupel_fallen = zero;
    Real reflectivity = one, liquid_path = zero, ice_path = zero;

    for (int round = 0; round < steps; ++round) {
        Real rain_flux = zero, ice_flux = zero, snow_flux = zero, graupel_flux = zero;
        for (int level = levels - 1; level >= 0; --level) {
            const size_t here = static_cast<size_t>(level) * columns + column;
            const Real pressure = at.pressure[here], density = at.density[here], thickness = at.thickness[here];
            const Real mass = density * thickness;
            Real t = at.temperature[here], qv = at.vapour[here], qc = at.cloud[here], qr = at.rain[here];
            Real qi = at.ice[here], qs = at.snow[here], qg = at.graupel[here];

            // Falling. Thin air carries less.
            const Real lift = sqrt(Real(1.29) / density);
            const Real rain_slope = slope(is.rain_intercept, is.water_density, density * qr);
            const Real snow_slope = slope(is.snow_intercept, is.snow_density, density * qs);
            const Real graupel_slope = slope(is.graupel_intercept, is.graupel_density, density * qg);
            const Real rain_speed = is.rain_speed * is.rain_gamma * lift / pow(rain_slope, is.rain_exponent);
            const Real snow_speed = is.snow_speed * is.snow_gamma * lift / pow(snow_slope, is.snow_exponent);
            const Real graupel_speed = is.graupel_speed * is.graupel_gamma * lift / pow(graupel_slope, is.graupel_exponent);
            const Real ice_speed = Real(3.29) * pow(at_least(density * qi, Real(1e-12)), Real(0.16));
            fall(qr, rain_flux, rain_speed, mass, thickness, step);
            fall(qi, ice_flux, ice_speed, mass, thickness, step);
            fall(qs, snow_flux, snow_speed, mass, thickness, step);
            fall(qg, graupel_flux, graupel_speed, mass, thickness, step);

            const Real over_water = saturation_water(t, pressure, ratio), over_ice = saturation_ice(t, pressure, ratio);

            // Conversions during the step, kg/kg: c cloud, r rain, i ice, s snow, g graupel, v vapour.
            Real c_r = zero, r_v = zero, v_i = zero, v_s = zero, i_v = zero, s_v = zero, g_v = zero, c_i = zero, i_s = zero;
            Real c_s = zero, c_g = zero, i_g = zero, s_g = zero, r_g = zero, r_s = zero, i_c = zero, s_r = zero, g_r = zero;

            // Droplets collide and form drops, and drops collect droplets.
            if (qc > Real(1e-12)) {
                c_r = step * autoconversion * at_least(qc - droplet_threshold, zero);
                if (qr > Real(1e-12))
                    c_r += step * is.accretion * qc * pow(qr, Real(0.875));
            }
            // Drops evaporate in dry air, faster with ventilation.
            if (qr > Real(1e-12) && qv < over_water) {
                const Real content = density * qr;
                const Real ventilation = Real(1.6) + Real(124.9) * pow(content, Real(0.2046));
                const Real resistance = Real(5.4e5) + Real(2.55e8) / (pressure * over_water);
                r_v = step * (one - qv / over_water) * ventilation * pow(content, Real(0.525)) / (density * resistance);
                r_v = at_most(r_v, Real(0.5) * (over_water - qv));
            }
            if (t < is.freezing) {
                const Real below = is.freezing - t, cold = clamped(below * Real(2));
                const Real crystals = at_most(Real(10) * exp(Real(0.3) * below), Real(2e5));
                // Vapour deposits on crystals and snow if the air is supersaturated over ice, and leaves them if it is
                // subsaturated.
                const Real surplus = qv - over_ice;
                const Real exchange = one - exp(-step * Real(2e-5) * sqrt(crystals));
                const Real surface = qs > Real(1e-12)
                                         ? Real(4) * is.snow_intercept / (snow_slope * snow_slope) * (Real(0.65) + Real(15) / sqrt(snow_slope))
                                         : zero;
                const Real on_snow = one - exp(-step * Real(1.4e-5) * surface);
                if (surplus > zero) {
                    v_i = cold * surplus * exchange * Real(0.5);
                    v_s = cold * surplus * on_snow * Real(0.25);
                } else {
                    i_v = cold * at_most(-surplus * exchange, qi) * Real(0.5);
                    s_v = cold * at_most(-surplus * on_snow, qs) * Real(0.25);
                    g_v = cold * at_most(-surplus * on_snow, qg) * Real(0.125);
                }
                // Crystals aggregate, more so when it is warmer.
                i_s = cold * step * is.aggregation * exp(Real(0.025) * -below) * at_least(qi - is.aggregation_threshold, zero);
                // Supercooled droplets freeze onto particles that fall through them.
                if (qc > Real(1e-12)) {
                    if (qs > Real(1e-12)) {
                        const Real swept = Real(0.25) * pi * is.snow_intercept * is.snow_speed * Real(2.2) * lift / pow(snow_slope, Real(3) + is.snow_exponent);
                        c_s = cold * qc * (one - exp(-step * swept));
                    }
                    if (qg > Real(1e-12)) {
                        const Real swept =
                            Real(0.25) * pi * is.graupel_intercept * is.graupel_speed * Real(2.9) * lift / pow(graupel_slope, Real(3) + is.graupel_exponent);
                        c_g = cold * qc * (one - exp(-step * swept));
                        i_g = cold * qi * exp(Real(0.05) * -below) * (one - exp(-step * Real(0.1) * swept));
                    }
                    // Without such particles, they freeze spontaneously from about -38 °C.
                    c_i = qc * clamped((below - Real(36)) * Real(0.25));
                }
                // Heavily rimed snow becomes graupel.
                s_g = cold * step * Real(1e-3) * exp(Real(0.09) * -below) * at_least(qs - Real(6e-4), zero);
                // Drops freeze, large and cold ones first; small ones to snow, others to graupel.
                if (qr > Real(1e-12)) {
                    const Real inverse = one / rain_slope, inverse_3 = inverse * inverse * inverse;
                    const Real frozen = Real(20) * pi * pi * Real(100) * is.rain_intercept * is.water_density / density *
                                        (exp(Real(0.66) * at_most(below, Real(40))) - one) * inverse_3 * inverse_3 * inverse;
                    const Real small = clamped(one - qr * Real(1e4));
                    const Real freezes = cold * qr * (one - exp(-step * frozen / at_least(qr, Real(1e-12))));
                    r_s = small * freezes;
                    r_g = (one - small) * freezes;
                }
            } else {
                const Real above = t - is.freezing;
                i_c = qi * clamped(above);
                // The available heat limits melting.
                Real heat = above / fusion_heat * Real(0.5);
                if (qs > Real(1e-12)) {
                    const Real size = one / snow_slope;
                    const Real rate = Real(2) * pi * Real(0.024) * above / is.fusion * is.snow_intercept *
                                      (Real(0.65) * size * size + Real(60) * size * size * sqrt(size)) / density;
                    s_r = at_most(step * rate, at_most(qs, heat));
                    heat -= s_r;
                }
                if (qg > Real(1e-12)) {
                    const Real size = one / graupel_slope;
                    const Real rate = Real(2) * pi * Real(0.024) * above / is.fusion * is.graupel_intercept *
                                      (Real(0.78) * size * size + Real(120) * size * size * sqrt(size)) / density;
                    g_r = at_most(step * rate, at_most(qg, heat));
                }
            }

            // No species loses more than it has.
            Real factor = share(qc, c_r + c_i + c_s + c_g);
            c_r *= factor, c_i *= factor, c_s *= factor, c_g *= factor;
            factor = share(qr, r_v + r_g + r_s);
            r_v *= factor, r_g *= factor, r_s *= factor;
            factor = share(qi, i_v + i_s + i_g + i_c);
            i_v *= factor, i_s *= factor, i_g *= factor, i_c *= factor;
            factor = share(qs, s_v + s_g + s_r);
            s_v *= factor, s_g *= factor, s_r *= factor;
            factor = share(qg, g_v + g_r);
            g_v *= factor, g_r *= factor;
            factor = share(qv, v_i + v_s);
            v_i *= factor, v_s *= factor;

            qv += r_v + i_v + s_v + g_v - v_i - v_s;
            qc += i_c - c_r - c_i - c_s - c_g;
            qr += c_r + s_r + g_r - r_v - r_g - r_s;
            qi += v_i + c_i - i_v - i_s - i_g - i_c;
            qs += v_s + i_s + c_s + r_s - s_v - s_g - s_r;
            qg += c_g + i_g + s_g + r_g - g_v - g_r;
            const Real settled = v_i + v_s - i_v - s_v - g_v;
            const Real frozen = c_i + c_s + c_g + r_g + r_s - i_c - s_r - g_r;
            Real warming = (settled - r_v) * vapour_heat + (settled + frozen) * fusion_heat;
            t += warming;

            // Excess vapour condenses, and droplets evaporate in dry air: two steps of Newton's method.
            for (int iteration = 0; iteration < 2; ++iteration) {
                const Real saturated = saturation_water(t, pressure, ratio);
                const Real sensitivity = Real(4302.645) / ((t - Real(29.65)) * (t - Real(29.65)));
                Real condensed = (qv - saturated) / (one + vapour_heat * saturated * sensitivity);
                condensed = at_least(condensed, -qc);
                qv -= condensed;
                qc += condensed;
                t += vapour_heat * condensed;
                warming += vapour_heat * condensed;
            }

            at.temperature[here] = t;
            at.vapour[here] = qv;
            at.cloud[here] = at_least(qc, zero);
            at.rain[here] = at_least(qr, zero);
            at.ice[here] = at_least(qi, zero);
            at.snow[here] = at_least(qs, zero);
            at.graupel[here] = at_least(qg, zero);
            at.heating[here] = (round == 0 ? zero : at.heating[here]) + warming / (step * steps);

            if (round == steps - 1) {
                liquid_path += mass * (qc + qr);
                ice_path += mass * (qi + qs + qg);
                const Real wet = Real(3.63e9) * pow(at_least(density * qr, Real(1e-12)), Real(1.75));
                const Real white = Real(9.80e8) * pow(at_least(density * qs, Real(1e-12)), Real(1.75));
                const Real hard = Real(4.33e10) * pow(at_least(density * qg, Real(1e-12)), Real(1.75));
                reflectivity = at_least(wet + white + hard, reflectivity);
            }
        }
        rain_fallen += step * rain_flux;
        snow_fallen += step * (snow_flux + ice_flux);
        graupel_fallen += step * graupel_flux;
    }
    at.rain_fallen[column] = rain_fallen;
    at.snow_fallen[column] = snow_fallen;
    at.graupel_fallen[column] = graupel_fallen;
    at.reflectivity[column] = reflectivity;
    at.liquid_path[column] = liquid_path;
    at.ice_path[column] = ice_path;
}

__global__ void microphysics(float *temperature, float *vapour, float *cloud, float *rain, float *ice, float *snow, float *graupel,
                             float *heating, const float *pressure, const float *density, const float *thickness,
                             const float *droplets, const int *land, float *rain_fallen, float *snow_fallen, float *graupel_fallen,
                             float *reflectivity, float *liquid_path, float *ice_path, int columns, int levels, int steps,
                             float step, float heat_capacity, float gas_air, float gas_vapour, float evaporation, float fusion,
                             float freezing, float autoconversion_land, float autoconversion_sea, float autoconversion_threshold,
                             float accretion, float aggregation, float aggregation_threshold, float rain_intercept,
                             float snow_intercept, float graupel_intercept, float water_density, float snow_density,
                             float graupel_density, float rain_speed, float rain_exponent, float snow_speed, float snow_exponent,
                             float graupel_speed, float graupel_exponent, float rain_gamma, float snow_gamma, float graupel_gamma) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns)
        return;
    const Columns<float> state = {temperature, vapour,  cloud,    rain,     ice,  snow,        graupel,     heating,        pressure,     density,
                                  thickness,   droplets, land, rain_fallen, snow_fallen, graupel_fallen, reflectivity, liquid_path, ice_path};
    const Constants<float> constants = {heat_capacity,  gas_air,        gas_vapour,        evaporation,   fusion,       freezing,
                                        autoconversion_land, autoconversion_sea, autoconversion_threshold, accretion, aggregation, aggregation_threshold,
                                        rain_intercept, snow_intercept, graupel_intercept, water_density, snow_density, graupel_density,
                                        rain_speed,     rain_exponent,  snow_speed,        snow_exponent, graupel_speed, graupel_exponent,
                                        rain_gamma,     snow_gamma,     graupel_gamma};
    advance(state, constants, column, columns, levels, steps, step);
}

// A distribution's mean fall speed, relative to the one at the mean slope.
static double speed_gamma(double exponent) { return std::tgamma(4.0 + exponent) / 6.0; }

template <typename Real> static Constants<Real> constants() {
    Constants<Real> is = {};
    is.heat_capacity = Real(1004.5), is.gas_air = Real(287.05), is.gas_vapour = Real(461.5);
    is.evaporation = Real(2.5e6), is.fusion = Real(3.34e5), is.freezing = Real(273.15);
    is.autoconversion_land = Real(4e-4), is.autoconversion_sea = Real(1e-3), is.autoconversion_threshold = Real(5e-4);
    is.accretion = Real(2.2), is.aggregation = Real(1e-3), is.aggregation_threshold = Real(8e-5);
    is.rain_intercept = Real(8e6), is.snow_intercept = Real(3e6), is.graupel_intercept = Real(4e5);
    is.water_density = Real(1000), is.snow_density = Real(100), is.graupel_density = Real(400);
    is.rain_speed = Real(842), is.rain_exponent = Real(0.8), is.rain_gamma = Real(speed_gamma(0.8));
    is.snow_speed = Real(4.836), is.snow_exponent = Real(0.25), is.snow_gamma = Real(speed_gamma(0.25));
    is.graupel_speed = Real(330), is.graupel_exponent = Real(0.8), is.graupel_gamma = Real(speed_gamma(0.8));
    return is;
}

struct Start {
    std::vector<float> temperature, vapour, cloud, rain, ice, snow, graupel, pressure, density, thickness, droplets;
    std::vector<int> land;
};

// Columns between the subtropics and the poles, with layers of cloud and showers in them.
static Start start(int columns, const Constants<float> &is) {
    Start at;
    const size_t cells = static_cast<size_t>(columns) * LEVELS;
    for (auto *field : {&at.temperature, &at.vapour, &at.cloud, &at.rain, &at.ice, &at.snow, &at.graupel, &at.pressure, &at.density, &at.thickness})
        field->resize(cells);
    at.droplets.resize(columns);
    at.land.resize(columns);
    for (int column = 0; column < columns; ++column) {
        auto random = [&](unsigned what) { return unit_float(static_cast<unsigned>(column) * 16u + what); };
        const float ground = 268.0f + 34.0f * random(0), humidity = 0.55f + 0.6f * random(1);
        const float cloud_base = 600.0f + 2500.0f * random(2), cloud_top = cloud_base + 9000.0f * random(3);
        const float shower = random(4) < 0.4f ? 2e-3f * random(5) : 0.0f;
        at.droplets[column] = 0.4f + 1.6f * random(6);
        at.land[column] = random(7) < 0.3f;
        float height = 0.0f, pressure = 101325.0f;
        for (int level = 0; level < LEVELS; ++level) {
            const size_t here = static_cast<size_t>(level) * columns + column;
            const float thickness = 60.0f + 10.0f * level, middle = height + 0.5f * thickness;
            const float temperature = std::max(ground - 0.0065f * middle, 206.0f);
            const float drop = std::exp(-9.81f * thickness / (is.gas_air * temperature));
            const float here_pressure = pressure * std::sqrt(drop);
            const bool cloudy = middle > cloud_base && middle < cloud_top;
            const float saturated = saturation_water(temperature, here_pressure, is.gas_air / is.gas_vapour);
            const float amount = cloudy ? 1.2e-3f * unit_float(static_cast<unsigned>(here) + 0x9e3779b9u) : 0.0f;
            const float frozen = std::min(std::max((is.freezing - temperature) / 30.0f, 0.0f), 1.0f);
            at.thickness[here] = thickness;
            at.temperature[here] = temperature;
            at.pressure[here] = here_pressure;
            at.density[here] = here_pressure / (is.gas_air * temperature);
            at.vapour[here] = saturated * (cloudy ? std::max(humidity, 0.98f) : 0.8f * humidity);
            at.cloud[here] = amount * (1.0f - frozen);
            at.ice[here] = 0.3f * amount * frozen;
            at.rain[here] = middle < cloud_top ? shower * (1.0f - frozen) : 0.0f;
            at.snow[here] = middle < cloud_top ? 0.7f * shower * frozen : 0.0f;
            at.graupel[here] = cloudy ? 0.4f * shower * frozen * (1.0f - frozen) : 0.0f;
            height += thickness;
            pressure *= drop;
        }
    }
    return at;
}

int main(int argc, char **argv) {
    const int columns = static_cast<int>(size_argument(argc, argv, 200));
    // Half a minute in this many steps, by default 2: a GPU takes as long for 110 steps of 200000 columns as for a
    // weather model's kernel.
    const int steps = argc > 2 ? static_cast<int>(size_argument(argc - 1, argv + 1, 2)) : 2;
    const float step = 30.0f / steps;
    const Constants<float> is = constants<float>();
    const Start before = start(columns, is);
    const size_t cells = before.temperature.size();
    DeviceArray<float> temperature(before.temperature), vapour(before.vapour), cloud(before.cloud), rain(before.rain), ice(before.ice),
        snow(before.snow), graupel(before.graupel), heating(cells), pressure(before.pressure), density(before.density),
        thickness(before.thickness), droplets(before.droplets), rain_fallen(columns), snow_fallen(columns), graupel_fallen(columns),
        reflectivity(columns), liquid_path(columns), ice_path(columns);
    DeviceArray<int> land(before.land);
    for (auto *output : {&heating, &rain_fallen, &snow_fallen, &graupel_fallen, &reflectivity, &liquid_path, &ice_path})
        output->clear();

    microphysics<<<blocks_for(columns, BLOCK), BLOCK>>>(
        temperature.get(), vapour.get(), cloud.get(), rain.get(), ice.get(), snow.get(), graupel.get(), heating.get(), pressure.get(),
        density.get(), thickness.get(), droplets.get(), land.get(), rain_fallen.get(), snow_fallen.get(), graupel_fallen.get(),
        reflectivity.get(), liquid_path.get(), ice_path.get(), columns, LEVELS, steps, step, is.heat_capacity, is.gas_air, is.gas_vapour,
        is.evaporation, is.fusion, is.freezing, is.autoconversion_land, is.autoconversion_sea, is.autoconversion_threshold, is.accretion,
        is.aggregation, is.aggregation_threshold, is.rain_intercept, is.snow_intercept, is.graupel_intercept, is.water_density,
        is.snow_density, is.graupel_density, is.rain_speed, is.rain_exponent, is.snow_speed, is.snow_exponent, is.graupel_speed,
        is.graupel_exponent, is.rain_gamma, is.snow_gamma, is.graupel_gamma);
    LAUNCH_OK();

    const std::vector<float> t = temperature.download(), qv = vapour.download(), qc = cloud.download(), qr = rain.download(),
                             qi = ice.download(), qs = snow.download(), qg = graupel.download(), warmed = heating.download(),
                             fallen_rain = rain_fallen.download(), fallen_snow = snow_fallen.download(),
                             fallen_graupel = graupel_fallen.download(), echo = reflectivity.download(), liquid = liquid_path.download(),
                             solid = ice_path.download();
    bool right = true;
    double moved = 0.0, precipitated = 0.0;
    for (int column = 0; column < columns; ++column) {
        double water = 0.0, enthalpy = 0.0, total = 0.0, air = 0.0;
        for (size_t here = column; here < cells; here += columns) {
            const double mass = static_cast<double>(before.density[here]) * before.thickness[here];
            const double frozen_before = static_cast<double>(before.ice[here]) + before.snow[here] + before.graupel[here];
            const double frozen_after = static_cast<double>(qi[here]) + qs[here] + qg[here];
            const double water_before = frozen_before + before.vapour[here] + before.cloud[here] + before.rain[here];
            const double water_after = frozen_after + qv[here] + qc[here] + qr[here];
            air += mass;
            total += mass * water_before;
            water += mass * (water_after - water_before);
            enthalpy += mass * (is.heat_capacity * (static_cast<double>(t[here]) - before.temperature[here]) +
                                is.evaporation * (static_cast<double>(qv[here]) - before.vapour[here]) - is.fusion * (frozen_after - frozen_before));
            moved += std::fabs(static_cast<double>(t[here]) - before.temperature[here]);
        }
        const double solid_fallen = static_cast<double>(fallen_snow[column]) + fallen_graupel[column];
        precipitated += solid_fallen + fallen_rain[column];
        right = right && std::fabs(water + fallen_rain[column] + solid_fallen) < 1e-5 * total + 1e-4;
        // A float of 280 K is a multiple of 3e-5 K.
        right = right && std::fabs(enthalpy - is.fusion * solid_fallen) < 2e-4 * air * is.heat_capacity;
    }
    right = right && moved > 1e-3 * columns && precipitated > 1e-4 * columns;

    // Recomputes some columns one at a time, with doubles.
    const Constants<double> exact = constants<double>();
    for (int column = 0; column < columns; column += std::max(columns / 128, 1)) {
        std::vector<std::vector<double>> fields(11, std::vector<double>(LEVELS));
        const std::vector<float> *initial[] = {&before.temperature, &before.vapour,   &before.cloud,   &before.rain,     &before.ice, &before.snow,
                                               &before.graupel,     &before.pressure, &before.density, &before.thickness};
        for (int level = 0; level < LEVELS; ++level)
            for (int field = 0; field < 10; ++field)
                fields[field][level] = (*initial[field])[static_cast<size_t>(level) * columns + column];
        double droplet = before.droplets[column], sums[6] = {};
        const Columns<double> one = {fields[0].data(), fields[1].data(), fields[2].data(), fields[3].data(), fields[4].data(),
                                     fields[5].data(), fields[6].data(), fields[10].data(), fields[7].data(), fields[8].data(),
                                     fields[9].data(), &droplet, &before.land[column], &sums[0], &sums[1], &sums[2], &sums[3], &sums[4], &sums[5]};
        advance(one, exact, 0, 1, LEVELS, steps, static_cast<double>(step));
        auto near = [&](float found, double expected, double within) {
            right = right && std::fabs(found - expected) <= within + 2e-3 * std::fabs(expected);
        };
        for (int level = 0; level < LEVELS; ++level) {
            const size_t here = static_cast<size_t>(level) * columns + column;
            right = right && std::fabs(t[here] - fields[0][level]) < 5e-3;
            const std::vector<float> *found[] = {&qv, &qc, &qr, &qi, &qs, &qg};
            for (int field = 0; field < 6; ++field)
                near((*found[field])[here], fields[field + 1][level], 2e-6);
            near(warmed[here], fields[10][level], 2e-4);
        }
        near(fallen_rain[column], sums[0], 1e-4);
        near(fallen_snow[column], sums[1], 1e-4);
        near(fallen_graupel[column], sums[2], 1e-4);
        right = right && std::fabs(echo[column] / sums[3] - 1.0) < 2e-2;
        near(liquid[column], sums[4], 1e-3);
        near(solid[column], sums[5], 1e-3);
    }
    return finish("microphysics", right, columns);
}
