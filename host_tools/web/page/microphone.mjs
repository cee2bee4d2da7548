// Hands the microphone's samples to the page, some 32 ms at a time.
class Samples extends AudioWorkletProcessor {
  kept = new Float32Array(512);
  at = 0;

  process([[samples]]) {
    if (!samples) return true;
    this.kept.set(samples, this.at);
    this.at += samples.length;
    if (this.at === this.kept.length) {
      this.port.postMessage(this.kept.slice());
      this.at = 0;
    }
    return true;
  }
}

registerProcessor('samples', Samples);
