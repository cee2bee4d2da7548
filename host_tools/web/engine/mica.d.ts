/** The error of a refused call: one line with the problem, and often the remedy. */
export class MicaError extends Error {}

/** Numbers of an input. A typed array of the input's own integers is the quantised tensor; all else are real numbers. */
export type Values = ArrayLike<number> | readonly (number | readonly unknown[])[];
export type Integers = Int8Array | Uint8Array | Int16Array | Int32Array | Float32Array;

/** real = scale * (q - zeroPoint) */
export interface Tensor {
  readonly id: number;
  readonly name: string;
  readonly dtype: 'int8' | 'uint8' | 'int16' | 'int32' | 'float32';
  readonly shape: number[];
  readonly scale: number;
  readonly zeroPoint: number;
  readonly space: number;
  readonly bytes: number;
  /** Where it lies in the engine's memory when the model is loaded: what shares bytes with what. */
  readonly address: number;
}

export interface Layer {
  readonly index: number;
  readonly name: string;
  readonly kernel: string;
  readonly macs: number;
  readonly scratch: number;
  readonly flags: number;
  /** Ids of tensors. */
  readonly inputs: number[];
  readonly outputs: number[];
}

/** An array that predict() returns: one output, or several as parts along an axis. */
export interface OutputArray {
  readonly name: string;
  readonly first: number;
  readonly parts: number;
  readonly axis: number;
  readonly shape: number[];
}

export interface Picture {
  readonly data: ArrayLike<number>;
  readonly width: number;
  readonly height: number;
}

export interface LoadOptions {
  /** The engine; by default mica.wasm beside this module, or mica-plain.wasm where there is no SIMD. */
  wasm?: WebAssembly.Module | URL | string;
  /** Bytes of scratch; by default as many as the file wants. */
  scratch?: number;
}

/** A model from the bytes of a .mica file. Rejects with MicaError where they break a rule of the format. */
export function load(bytes: Uint8Array | ArrayBuffer, options?: LoadOptions): Promise<Model>;
export function hasSimd(): boolean;
/** int16 samples out of Web Audio's floats, -1 to 1: times 32768, to the nearest, half to even. */
export function toSamples(sound: Float32Array | Float64Array | Int16Array): Int16Array;

export class Model {
  constructor(module: WebAssembly.Module, file: Uint8Array | ArrayBuffer, scratch?: number);
  readonly info: Readonly<Record<'fileBytes' | 'versionMajor' | 'versionMinor' | 'arenaBytes' | 'scratchMin' | 'scratchWant'
    | 'stateBytes' | 'tensors' | 'layers' | 'inputs' | 'outputs' | 'golden' | 'fed' | 'strips', number>>;
  readonly name: string;
  readonly labels: string[];
  readonly inputs: Tensor[];
  readonly outputs: Tensor[];
  readonly arrays: OutputArray[];
  readonly layers: Layer[];
  /** Which kernels run: "vector" or "c32". */
  readonly isa: string;
  metadata(key: string): string | null;
  tensor(id: number): Tensor;
  /** The tensor itself, in the engine's memory: valid until the next call that may make that memory grow. */
  input(i?: number | string): Integers;
  output(i?: number | string): Integers;
  /** Quantises values into an input. */
  write(i: number | string, values: Values): void;
  run(): void;
  /** Quantises the inputs, runs, and returns the real numbers of each array, row by row. */
  predict(inputs: readonly Values[] | Record<string, Values>): Float32Array[];
  values(array?: number): Float32Array;
  /** The k largest scores of the last run with the names of their classes, the largest first. */
  top(k?: number): [string, number][];
  /** Runs the model; yields the bytes of each layer's output. */
  runLayers(): Generator<{ layer: Layer; bytes: Uint8Array }>;
  /** Sets a streaming model's state back. */
  reset(): void;
  golden(i: number): { inputs: Integers[]; outputs: Integers[] };
  /** Runs the golden vectors: null, or the first place where other bytes came out. */
  selftest(): null | { vector: number; layer?: Layer; output?: string };
  /** Samples a second of an input that is sound, else 0. */
  readonly sampleRate: number;
  /** Samples become the input; silence fills it up where they are too few. */
  listen(sound: Float32Array | Int16Array): void;
  /** A picture becomes the input, resized and quantised as on a board. part: [x, y, width, height]. */
  see(image: Picture, options?: { part?: readonly [number, number, number, number]; area?: boolean }): void;
  /** The vocabulary of a language model, or null. */
  readonly tokens: null | {
    count: number; begin: number; end: number; token: number; position: number; length: number; output: number; positions: number;
    window: number; space: boolean;
  };
  encode(text: string): number[];
  /** Pieces of new text. temperature: 0, the likeliest token, to 10. topK: 0 for all. */
  generate(prompt: string, options?: { maxTokens?: number; temperature?: number; topK?: number; seed?: number }): Generator<string>;
}
