// What the units of namesakes know of one another.
#pragma once

void first(int *values, int n);
void second(int *values, int n);
