// SPDX-License-Identifier: Apache-2.0
#include "properties/core/problem.h"

#include <array>

#include "properties/core/float_environment.h"
#include "properties/core/host_memory.h"
#include "properties/core/precheck.h"
#include "properties/core/random.h"
#include "properties/core/regime.h"
#include "properties/core/thrown.h"

namespace assay {
namespace {

constexpr uint64_t kLayoutStream = 3000, kVersionStream = 3001, kFlushStream = 3002, kInflationStream = 3003;

// The same for all tensors of a case, so that those of one size can change places.
Flush flush_of(const Case& which) {
  return CounterRandom(which.seed, kFlushStream).bits(0) % 2 == 0 ? Flush::kEnd : Flush::kStart;
}

// The layout of tensor number `index` of so many, counting inputs and then outputs. Mixed is a
// choice among others, and a tensor without an axis to inflate is dense.
Layout layout_of(const Case& which, const Extents& shape, size_t index, size_t tensors) {
  if (which.layout == Layout::kInflated && inflatable_axes(shape).empty()) return Layout::kDense;
  if (which.layout != Layout::kMixed) return which.layout;
  using enum Layout;
  const CounterRandom random(which.seed, kLayoutStream);
  const bool is_one_alone = random.bits(0, 1) % 4 != 0;
  if (is_one_alone && random.bits(1, 1) % tensors != index) return kDense;
  // What keeps a path from whole vectors is mostly an address.
  constexpr std::array kAlone{kMisaligned, kMisaligned, kStrided, kTransposed};
  constexpr std::array kTogether{kDense, kMisaligned, kStrided, kTransposed};
  return (is_one_alone ? kAlone : kTogether)[random.bits(index) % kAlone.size()];
}

Inflation inflation_of(const Case& which, const Extents& shape, DType dtype, size_t index) {
  const std::vector<int> axes = inflatable_axes(shape);
  if (axes.empty()) return {};
  const CounterRandom random(which.seed, kInflationStream);
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  constexpr int64_t k31 = int64_t{1} << 31, k32 = int64_t{1} << 32;
  const std::array strides{k31, k32, k31 / bytes, k32 / bytes};
  return {.axis = axes[random.bits(2 * index) % axes.size()],
          .stride = strides[random.bits(2 * index + 1) % strides.size()]};
}

// Tensor number `index` of a case, counting inputs and then outputs.
GuardedTensor make_tensor(Device& device, const Op& op, const Case& which, size_t index) {
  const bool is_input = index < op.inputs.size();
  const TensorInfo& info = is_input ? op.inputs[index] : op.outputs[index - op.inputs.size()];
  const Extents shape = shape_of(info, which.dims);
  const DType dtype = info.dtype.value_or(which.dtype);
  return {device,
          shape,
          dtype,
          layout_of(which, shape, index, op.inputs.size() + op.outputs.size()),
          is_input,
          flush_of(which),
          inflation_of(which, shape, dtype, index)};
}

// Throws Error (device) unless the tensors fit: once on a device with memory of its own, and four
// times on the host, for the path's tensors, two sets of results and the oracle's expectations.
void require_memory(const Op& op, const Case& which, const Device& device) {
  const double needed = static_cast<double>(tensor_bytes(op, which.dims, which.dtype));
  const auto require = [&](double bytes, double available, std::string_view where) {
    if (bytes <= available) return;
    throw OutOfMemory("{:.6g} GiB of {} memory are needed and {:.3g} GiB are available", bytes / 0x1p30,
                      where, available / 0x1p30);
  };
  if (!device.host_can_access()) require(needed, static_cast<double>(device.info().memory_bytes), "device");
  // Reading what is available takes longer than a small case.
  constexpr double kAlwaysThere = 0x1p24;  // [bytes]
  if (4 * needed > kAlwaysThere) require(4 * needed, available_host_memory(), "host");
}

}  // namespace

uint64_t hash_of(TensorBytes& tensors) {
  uint64_t hash = 0;
  for (std::vector<std::byte>& tensor : tensors)
    hash = CounterRandom(hash, hash_of(MemorySpan{tensor.data(), std::ssize(tensor)})).bits(0);
  return hash;
}

Problem::Problem(const Op& op, const Path& path, const Case& which, Device& device,
                 std::shared_ptr<Context> context)
    : op_(&op),
      path_(&path),
      case_(which),
      device_(&device),
      context_(context != nullptr ? std::move(context) : std::make_shared<Context>(device)) {
  require_dims(op, which.dims);
  require_memory(op, which, device);
  inputs_ = make_inputs();
  outputs_.reserve(op.outputs.size());
  for (size_t i = 0; i < op.outputs.size(); ++i)
    outputs_.push_back(make_tensor(device, op, which, op.inputs.size() + i));
  const CounterRandom random(which.seed, kVersionStream);
  const uint64_t kind = random.bits(0) % 4;
  if (kind != 0) versions_.resize(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i)
    has_version_.push_back(kind != 2 || random.bits(1 + i) % 2 == 0);
}

std::vector<GuardedTensor> Problem::make_inputs() const {
  std::vector<GuardedTensor> tensors;
  tensors.reserve(op_->inputs.size());
  for (size_t i = 0; i < op_->inputs.size(); ++i) tensors.push_back(make_tensor(*device_, *op_, case_, i));
  return tensors;
}

void Problem::upload_input(size_t number) {
  GuardedTensor& tensor = inputs_[number];
  tensor.upload();
  if (!only_holds_inputs_) tensor.protect();
  if (versions_.empty() || !has_version_[number]) return;
  uint64_t& version = known_versions_[{number, tensor.hash()}];
  if (version == 0) version = new_version();
  versions_[number] = version;
}

void Problem::only_hold_inputs() {
  only_holds_inputs_ = true;
  versions_.clear();
}

void Problem::draw_inputs(uint64_t seed, size_t first) {
  for (size_t i = first; i < inputs_.size(); ++i) draw_input(seed, i);
}

void Problem::draw_input(uint64_t seed, size_t number) {
  draw_input(seed, number, case_.data);
}

void Problem::draw_input(uint64_t seed, size_t number, const Data& data) {
  std::vector<DType> dtypes;
  for (const auto* tensors : {&inputs_, &outputs_}) {
    for (const GuardedTensor& tensor : *tensors) dtypes.push_back(tensor.host_view().dtype);
  }
  GuardedTensor& tensor = inputs_[number];
  const TensorView view = tensor.host_view();
  const Drawing drawing(data, seed,
                        {.tensor = static_cast<int>(number),
                         .tensors = static_cast<int>(inputs_.size()),
                         .dtype = view.dtype,
                         .shape = view.shape,
                         .common = common_format(dtypes),
                         .degree = op_->degree,
                         .least_degree = op_->least_degree});
  if (!only_holds_inputs_) tensor.poison(Poison::kNan);
  tensor.fill_ranges([&](int64_t first, std::span<double> values) { drawing.draw(first, values); });
  upload_input(number);
}

void Problem::set_inputs(const TensorBytes& inputs) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!only_holds_inputs_) inputs_[i].poison(Poison::kNan);
    inputs_[i].scatter(inputs[i]);
    if (inputs_[i].gather() != inputs[i]) {
      throw usage_error("layout=broadcast needs a tensor {} that repeats along its outermost dimension",
                        op_->inputs[i].name);
    }
    upload_input(i);
  }
}

void Problem::swap_inputs(std::optional<size_t> number) {
  if (other_inputs_.empty()) other_inputs_ = make_inputs();
  if (number) {
    std::swap(inputs_[*number], other_inputs_[*number]);
  } else {
    inputs_.swap(other_inputs_);
  }
}

void Problem::rotate_input(size_t number, const void* contents, int64_t by, uint64_t version) {
  inputs_[number].set_rotated(contents, by);
  has_changed(number, version);
}

void Problem::set_elements(size_t number, int64_t first, const void* contents, int64_t count,
                           uint64_t version) {
  inputs_[number].set_elements(first, contents, count);
  has_changed(number, version);
}

void Problem::has_changed(size_t number, uint64_t version) {
  if (!only_holds_inputs_) inputs_[number].protect();
  if (!versions_.empty() && has_version_[number]) versions_[number] = version;
}

void Problem::poison_other_inputs() {
  for (GuardedTensor& tensor : other_inputs_) {
    tensor.poison(Poison::kNan);
    tensor.upload();
  }
}

void Problem::swap_memory_of_inputs() {
  std::vector<bool> is_swapped(inputs_.size());
  for (size_t i = 1; i < inputs_.size(); ++i) {
    for (size_t j = i + 1; j < inputs_.size() && !is_swapped[i]; ++j) {
      if (is_swapped[j] || !inputs_[i].swap_memory(inputs_[j])) continue;
      is_swapped[i] = is_swapped[j] = true;
    }
  }
}

void Problem::poison_outputs(Poison poison) {
  for (GuardedTensor& tensor : outputs_) {
    tensor.poison(poison);
    tensor.upload();
  }
  device_->fill_shared_memory(static_cast<unsigned char>(poison));
}

Call Problem::call() const {
  Call call{.dims = case_.dims,
            .dtype = case_.dtype,
            .inputs = {},
            .outputs = {},
            .stream = device_->stream(),
            .context = context_.get(),
            .versions = versions_};
  for (const GuardedTensor& tensor : inputs_) call.inputs.push_back(tensor.device_view());
  for (const GuardedTensor& tensor : outputs_) call.outputs.push_back(tensor.device_view());
  return call;
}

void Problem::call_path(const Call& call) const {
  const FloatEnvironment environment;
  try {
    path_->run(call);
  } catch (const OutOfMemory&) {  // for scratch: whether the path is to blame shows later
    throw;
  } catch (const ForcedIsUnfit&) {  // whether anything is forced shows later
    throw;
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kUnsupported) throw unsupported_error("{}", error.what());
    throw PathThrew(verdict_on_thrown());
  } catch (...) {
    throw PathThrew(verdict_on_thrown());
  }
  if (const auto what = environment.change()) throw Trespass(fmt::format("changed {}", *what));
}

void Problem::enqueue() {
  if (replay_) {
    replay_();
  } else {
    call_path(call());
  }
}

void Problem::run() {
  enqueue();
  finish(device_->stream());
  for (GuardedTensor& tensor : outputs_) tensor.download();
}

void Problem::run_directly(void* stream) {
  Call direct = call();
  direct.stream = stream;
  call_path(direct);
  finish(stream);
  for (GuardedTensor& tensor : outputs_) tensor.download();
}

void Problem::run_on_other_schedule(uint64_t seed, const Problem* beside) {
  const auto calls = [&] {
    if (beside != nullptr) {
      Call other = beside->call();
      other.stream = device_->other_stream();
      beside->call_path(other);
    }
    enqueue();
  };
  device_->run_on_other_schedule(calls, seed);
  finish(device_->stream());
  for (GuardedTensor& tensor : outputs_) tensor.download();
}

void Problem::finish(void* stream) {
  device_->synchronize(stream);
  const auto require_untouched = [](std::vector<GuardedTensor>& tensors, const std::vector<TensorInfo>& infos,
                                    std::string_view kind) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (const auto touch = tensors[i].find_touch(fmt::format("the {} {}", kind, infos[i].name)))
        throw Trespass(*touch);
    }
  };
  require_untouched(inputs_, op_->inputs, "input");
  require_untouched(outputs_, op_->outputs, "output");
  require_untouched(other_inputs_, op_->inputs, "earlier input");
}

void Problem::capture() {
  replay_ = device_->capture([this] { call_path(call()); });
  context_of_graph_ = context_;
}

void Problem::release_graph() {
  replay_ = {};
}

void Problem::lower_thresholds() {
  release_graph();
  if (low_thresholds_ == nullptr) low_thresholds_ = std::make_unique<LowThresholds>();
}

void Problem::begin(std::string_view step) {
  step_ = step;
  if (observer_) observer_(step);
}

void Problem::set_context(std::shared_ptr<Context> context) {
  context_ = std::move(context);
}

namespace {

TensorBytes gather(const std::vector<GuardedTensor>& tensors) {
  TensorBytes bytes;
  for (const GuardedTensor& tensor : tensors) bytes.push_back(tensor.gather());
  return bytes;
}

}  // namespace

TensorBytes Problem::inputs() const {
  return gather(inputs_);
}
TensorBytes Problem::outputs() const {
  return gather(outputs_);
}

Question Problem::question() const {
  return question(path_->recipe(case_.dims, case_.dtype));
}

Question Problem::question(Recipe recipe) const {
  Question question{.dims = case_.dims, .recipe = std::move(recipe), .inputs = {}};
  for (const GuardedTensor& tensor : inputs_) question.inputs.push_back(tensor.host_view());
  return question;
}

}  // namespace assay
