// Recordings of a board's sensors, by the programs of `mica record`; the words for a sensor's wires are those of its options.
import { crc32, npz, wav } from './bytes.mjs';
import { BoardError } from './serial_board.mjs';

const WAKE = 0.1; // seconds of a microphone, whose first samples are none

// args(wires, samples, rate): arguments of link/on_board/record_*.py, for words by name; undefined for one that is missing. columns: numbers of a sample.
export const SENSORS = {
  adc: { title: 'analogue pin', wires: 'pin=26', rate: 1000, columns: 1, program: 'record_adc', args: (w, n, rate) => [w.pin, n, Math.floor(1e6 / rate)] },
  i2s: {
    title: 'microphone (I2S)', wires: 'sck=16,ws=17,sd=18', rate: 16000, columns: 1, program: 'record_i2s',
    args: (w, n, rate) => [w.id ?? 0, w.sck, w.ws, w.sd, w.bits ?? 16, rate, n, Math.floor(rate * WAKE)],
  },
  mpu6050: {
    title: 'motion sensor MPU6050 (I2C)', wires: 'sda=4,scl=5', rate: 100, columns: 6, program: 'record_motion',
    args: (w, n, rate) => [w.id ?? 0, w.sda, w.scl, w.addr ?? 0x68, n, Math.floor(1e6 / rate)],
  },
  mpu6500: {
    title: 'motion sensor MPU6500 (SPI)', wires: 'sck=2,mosi=3,miso=4,cs=5', rate: 100, columns: 6, program: 'record_motion',
    args: (w, n, rate) => [w.id ?? 0, w.sck, w.mosi, w.miso, w.cs, n, Math.floor(1e6 / rate)],
  },
};

function numbers(sensor, wires) {
  const words = Object.fromEntries(wires.split(',').map((word) => word.split('=').map((part) => part.trim())));
  const known = new Set([...sensor.wires.matchAll(/(\w+)=/g)].map((found) => found[1]).concat('id', 'bits', 'addr'));
  for (const [name, text] of Object.entries(words)) {
    if (!known.has(name) || !/^(\d+|0x[\da-f]+)$/i.test(text ?? '')) throw new BoardError(`wires '${wires}': expected such as ${sensor.wires}`);
    words[name] = Number(text);
  }
  return words;
}

// `count` samples of a sensor, as bytes and as a file: {samples, ending, bytes}. programs: those of site.json.
export async function record(board, programs, kind, wires, rate, count) {
  const sensor = SENSORS[kind];
  const args = sensor.args(numbers(sensor, wires), count, rate);
  if (args.includes(undefined)) throw new BoardError(`wires '${wires}': expected such as ${sensor.wires}`);
  const given = sensor.columns > 1 ? `(${args.slice(0, -2)}),${args.slice(-2)}` : args;
  const size = 2 * count * sensor.columns;
  const [late, ...lines] = await board.session(async (run) => {
    try {
      const printed = await run(`${programs[sensor.program]}\n_x,_late=_mica_${sensor.program}(${given})\nprint(_late)`, 10 + (2 * count) / rate);
      return [printed.trim(), ...(await run(`${programs.get}\n_mica_get(memoryview(_x))`, 60)).trim().split(/\r?\n/)];
    } catch (error) {
      if (/MemoryError/.test(error.message)) throw new BoardError(`the board has no ${size} bytes free for that: take fewer samples`);
      if (/OSError/.test(error.message)) throw new BoardError(`${error.message}; is the ${sensor.title} connected, with ${wires}?`);
      throw error;
    } finally {
      await run('_x=None').catch(() => {});
    }
  });
  const samples = Uint8Array.from(atob(lines.slice(0, -1).join('')), (c) => c.charCodeAt(0));
  if (samples.length !== size || crc32(samples) !== Number(lines.at(-1))) throw new BoardError('the recording was damaged on its way; record again');
  if (Number(late) > count / 100) throw new BoardError(`${late} of ${count} samples came late: the board cannot read ${rate} a second; take fewer a second`);
  if (samples.every((byte, i) => byte === samples[i % (2 * sensor.columns)])) throw new BoardError(`all samples are the same: is the ${sensor.title} connected, with ${wires}?`);
  return { samples, ...(sensor.columns > 1 ? { ending: 'npz', bytes: npz(samples, sensor.columns, rate) } : { ending: 'wav', bytes: wav(samples, rate) }) };
}
