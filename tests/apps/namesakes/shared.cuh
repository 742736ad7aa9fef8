// The declarations shared by the units of namesakes.
#pragma once

void first(int *values, int n);
void second(int *values, int n);
