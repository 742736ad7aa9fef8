// lld's driver for ELF, which links relocatable objects of AMD GPUs to code objects in this process.
//
// Called from llvm.rs. lld keeps global state while it works, which `destroy` clears, so only one link may run at a
// time.

#include <string>
#include <vector>

#include "lld/Common/CommonLinkerContext.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"

#include "revise.h"

LLD_HAS_DRIVER(elf)

extern "C" {

/// Links. Returns null or lld's error, which the caller frees. `Words` begin with lld's own name.
char *mneme_lld_link(int Count, const char *const *Words) {
  std::string Said;
  llvm::raw_string_ostream Stream(Said);
  std::vector<const char *> Arguments(Words, Words + Count);
  bool Linked = lld::elf::link(Arguments, Stream, Stream, /*exitEarly=*/false, /*disableOutput=*/false);
  lld::CommonLinkerContext::destroy();
  return Linked ? nullptr : mneme::copy(Said);
}

} // extern "C"
