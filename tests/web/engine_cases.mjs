// The engine's answers to cases: {bytes, inputs, listen, see}, all base64 or numbers. Runs in Node.js and in a page alike.
const unpacked = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const packed = (view) => {
  let text = '';
  for (const byte of new Uint8Array(view.buffer, view.byteOffset, view.byteLength)) text += String.fromCharCode(byte);
  return btoa(text);
};

export async function answers(mica, cases, options) {
  const said = [];
  for (const one of cases) {
    let model;
    try {
      model = await mica.load(unpacked(one.file), options);
    } catch (error) {
      said.push({ refused: error.message, ours: error instanceof mica.MicaError });
      continue;
    }
    const runs = [];
    for (const inputs of one.inputs ?? []) {
      inputs.forEach((text, i) => model.write(i, new (model.input(i).constructor)(unpacked(text).buffer)));
      const layers = [...model.runLayers()].map(({ bytes }) => packed(bytes));
      const outputs = model.outputs.map((_, i) => packed(model.output(i)));
      runs.push({ layers, outputs, values: model.arrays.map((_, k) => packed(model.values(k))), top: safely(() => model.top(3)) });
    }
    const seen = (one.see ?? []).map(({ data, width, height, part, area }) => {
      model.see({ data: unpacked(data), width, height }, { part, area });
      return packed(model.input());
    });
    const sounds = (one.listen ?? []).map(({ floats, samples }) => {
      model.listen(floats ? new Float32Array(unpacked(floats).buffer) : new Int16Array(unpacked(samples).buffer));
      return packed(model.input());
    });
    const written = (one.write ?? []).map((text) => {
      model.write(0, new Float32Array(unpacked(text).buffer));
      return packed(model.input());
    });
    const said_texts = (one.prompts ?? []).map(({ prompt, options: how }) => [...model.generate(prompt, how)].join(''));
    said.push({
      isa: model.isa, runs, seen, sounds, written, texts: said_texts, selftest: model.info.golden ? model.selftest() : 'none',
      names: model.inputs.map((t) => t.name), shapes: model.outputs.map((t) => t.shape), labels: model.labels, kernels: model.layers.map((s) => s.kernel),
    });
  }
  return said;
}

function safely(f) {
  try {
    return f();
  } catch (error) {
    return error.message;
  }
}
