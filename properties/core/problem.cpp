// SPDX-License-Identifier: Apache-2.0
#include "properties/core/problem.h"

#include "properties/core/regime.h"

namespace assay {

Problem::Problem(const Op& op, const Path& path, const Case& which, Device& device)
    : op_(&op), path_(&path), case_(which), device_(&device) {
  require_dims(op, which.dims);
  const auto make = [&](const std::vector<TensorInfo>& infos, bool is_input,
                        std::vector<GuardedTensor>& tensors) {
    tensors.reserve(infos.size());
    for (const TensorInfo& info : infos) {
      tensors.emplace_back(device, shape_of(info, which.dims), info.dtype.value_or(which.dtype), which.layout,
                           is_input);
    }
  };
  make(op.inputs, true, inputs_);
  make(op.outputs, false, outputs_);
}

void Problem::draw_inputs(uint64_t seed) {
  const int count = static_cast<int>(inputs_.size());
  for (int i = 0; i < count; ++i) {
    GuardedTensor& tensor = inputs_[static_cast<size_t>(i)];
    const Drawing drawing(case_.data, seed, i, count, tensor.host_view().dtype, tensor.elements());
    tensor.poison(Poison::kNan);
    tensor.fill([&](int64_t element) { return drawing(element); });
    tensor.upload();
  }
}

void Problem::set_inputs(const TensorBytes& inputs) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].poison(Poison::kNan);
    inputs_[i].scatter(inputs[i]);
    inputs_[i].upload();
  }
}

void Problem::poison_outputs(Poison poison) {
  for (GuardedTensor& tensor : outputs_) {
    tensor.poison(poison);
    tensor.upload();
  }
}

void Problem::enqueue() {
  Call call{
      .dims = case_.dims, .dtype = case_.dtype, .inputs = {}, .outputs = {}, .stream = device_->stream()};
  for (const GuardedTensor& tensor : inputs_) call.inputs.push_back(tensor.device_view());
  for (const GuardedTensor& tensor : outputs_) call.outputs.push_back(tensor.device_view());
  path_->run(call);
}

void Problem::run() {
  enqueue();
  device_->synchronize();
  for (GuardedTensor& tensor : outputs_) tensor.download();
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
  Question question{.dims = case_.dims, .recipe = path_->recipe(case_.dtype), .inputs = {}};
  for (const GuardedTensor& tensor : inputs_) question.inputs.push_back(tensor.host_view());
  return question;
}

}  // namespace assay
