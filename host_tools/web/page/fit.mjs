// Whether a model fits a board, by what its file says and by the board's facts in site.json; mica/cost/prediction.py is the rule, and a test
// compares them. Time needs the costs of all kernels, which Python has.

// The nearest whole number, half to even, as Python rounds.
function round(x) {
  const r = Math.round(x);
  return r - x === 0.5 && r % 2 ? r - 1 : r;
}

// model: of the engine. Returns {reasons, notes, heap}: why it does not fit, what is slower then, and bytes of heap that it takes.
export function fit({ info }, b) {
  const reasons = [];
  const notes = [];
  const n = (value) => value.toLocaleString('en');
  const size = info.fileBytes;
  const copied = size > b.romFile && b.storage > 0 && size <= b.storage;
  if (size > b.romFile && !copied) reasons.push(`flash: the file has ${n(size)} bytes; models on ${b.board} have ${n(Math.max(b.window, b.storage))}`);
  if (copied) notes.push('the file lies in the file system and is copied into RAM when it is loaded');
  else if (size > b.pushFile) notes.push('it takes more than half of the ROMFS: mica flash --with puts it there, a push cannot');
  const least = info.arenaBytes + info.scratchMin;
  const want = info.arenaBytes + info.scratchWant;
  const tables = round(b.heapFixed + b.heapStep * info.layers) + (info.strips ? 192 + 28 * info.layers + 20 * info.tensors : 0);
  const around = tables + info.stateBytes + (copied ? size : 0);
  let block = 0;
  if (want > b.arena) {
    if (b.heap === null || around + want <= b.heap) block = want;
    else {
      block = least <= b.arena ? 0 : least;
      notes.push('the heap has no room for the scratch it wants: layers run slower');
    }
  }
  const heap = around + block;
  if (b.heap !== null && heap > b.heap) reasons.push(`RAM: needs ${n(heap)} bytes of heap; ${b.board} has ${n(b.heap)}`);
  if (b.heap === null && least > b.ram) reasons.push(`RAM: needs ${n(least)} bytes for its tensors; ${b.board} has ${n(b.ram)}`);
  return { reasons, notes, heap };
}
