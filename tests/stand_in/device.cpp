// A device that torch believes in and that computes nothing. Autograd's engine starts a thread for it
// at the first backward pass of a process, as it does for a GPU.
#include <c10/core/impl/DeviceGuardImplInterface.h>

struct StandIn final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::PrivateUse1> {
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

namespace c10::impl {
C10_REGISTER_GUARD_IMPL(PrivateUse1, StandIn)
}
