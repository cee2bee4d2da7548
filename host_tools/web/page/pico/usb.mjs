// The computer's end of the board's USB: finds the serial port among the descriptors and moves its bytes.
//
// rp2040js models the registers of the device controller. This file replaces its handling of the endpoint buffers, for
// two reasons. rp2040js answers a board that is ready to receive at once, with no data, so that the board never sleeps;
// and it swaps the halves of a double-buffered transfer. Here a board without data waits, as it does on a cable.

const AVAILABLE = 1 << 10;
const FULL = 1 << 15;
const LENGTH = 0x3ff;
const DOUBLE_BUFFERED = 1 << 30;
const BUFFER_CONTROL = 0x80; // registers of endpoint 0, in and out; the others follow
const BUFFER_CONTROL_END = 0x100;
const PACKET = 64;

// Until a packet is taken or given. A full-speed bus needs about 50; less only saves emulated waiting.
const PACKET_NANOS = 10_000;

const GET_DESCRIPTOR = 6;
const SET_ADDRESS = 5;
const SET_CONFIGURATION = 9;
const SET_LINE_CODING = 0x20;
const SET_CONTROL_LINE_STATE = 0x22;
const DEVICE = 1;
const CONFIGURATION = 2;
const INTERFACE = 4;
const ENDPOINT = 5;
const CLASS_COMMUNICATION = 2;
const CLASS_DATA = 10;

function setup(type, request, value, index, length) {
  return Uint8Array.of(type, request, value & 0xff, value >> 8, index & 0xff, index >> 8, length & 0xff, length >> 8);
}

export class UsbSerial {
  // onData(bytes): the board has sent.
  constructor(rp2040, onData) {
    this.usb = rp2040.usbCtrl;
    this.dpram = rp2040.usbDPRAM;
    this.registers = rp2040.usbDPRAMView;
    this.clock = rp2040.clock;
    this.onData = onData;
    this.dtr = false; // whether a program has the port open
    this.alarms = new Map();
    this.outQueue = []; // bytes for the board, from before it has come up, too
    this.outBytes = 0;
    this.forget();
    this.usb.onUSBEnabled = () => this.usb.resetDevice();
    this.usb.onResetReceived = () => {
      this.forget();
      this.enumerate();
    };
    this.usb.DPRAMUpdated = (offset, value) => this.bufferControlWritten(offset, value);
  }

  // After a reset of the bus.
  forget() {
    this.transfers = []; // control transfers to be made, first is under way
    this.armed = new Set(); // endpoints whose OUT buffer the board has offered
    this.inEndpoint = -1;
    this.outEndpoint = -1;
    this.interface = 0;
    this.ready = false;
  }

  // --- the serial port

  // Give bytes to the board; it takes them when it wants.
  send(bytes) {
    this.outQueue.push(bytes);
    this.outBytes += bytes.length;
    this.serveOut(this.outEndpoint);
  }

  // A program opens or closes the port.
  setDtr(on) {
    this.dtr = on;
    if (this.ready) {
      this.sendLineState();
    }
    if (!on) {
      this.outQueue = [];
      this.outBytes = 0;
    }
  }

  sendLineState() {
    this.control(setup(0x21, SET_CONTROL_LINE_STATE, this.dtr ? 3 : 0, this.interface, 0));
  }

  // --- what every host does with a new device

  enumerate() {
    this.control(setup(0x00, SET_ADDRESS, 1, 0, 0));
    this.control(setup(0x80, GET_DESCRIPTOR, DEVICE << 8, 0, 18));
    this.control(setup(0x80, GET_DESCRIPTOR, CONFIGURATION << 8, 0, 9), {
      done: (head) => {
        const size = head[2] | (head[3] << 8);
        this.control(setup(0x80, GET_DESCRIPTOR, CONFIGURATION << 8, 0, size), { done: (all) => this.configure(all) });
      },
    });
  }

  configure(descriptors) {
    let kind = -1;
    for (let at = 0; at < descriptors.length && descriptors[at] >= 2; at += descriptors[at]) {
      const type = descriptors[at + 1];
      if (type === INTERFACE) {
        kind = descriptors[at + 5];
        if (kind === CLASS_COMMUNICATION) {
          this.interface = descriptors[at + 2];
        }
      } else if (type === ENDPOINT && kind === CLASS_DATA) {
        const address = descriptors[at + 2];
        if (address & 0x80) {
          this.inEndpoint = address & 0xf;
        } else {
          this.outEndpoint = address & 0xf;
        }
      }
    }
    this.control(setup(0x00, SET_CONFIGURATION, 1, 0, 0));
    const coding = Uint8Array.of(0x00, 0xc2, 0x01, 0x00, 0, 0, 8); // 115200, 1 stop bit, no parity, 8 bits
    this.control(setup(0x21, SET_LINE_CODING, 0, this.interface, coding.length), {
      data: coding,
      done: () => {
        this.ready = true;
        if (this.dtr) {
          this.sendLineState();
        }
      },
    });
  }

  // --- control transfers, one at a time

  control(packet, { data = null, done = null } = {}) {
    this.transfers.push({ packet, data, done, received: [] });
    if (this.transfers.length === 1) {
      this.startTransfer();
    }
  }

  startTransfer() {
    this.after('setup', () => {
      if (this.transfers.length > 0) {
        this.armed.delete(0);
        this.usb.sendSetupPacket(this.transfers[0].packet);
      }
    });
  }

  endTransfer() {
    const { done, received } = this.transfers.shift();
    if (done !== null) {
      done(received);
    }
    if (this.transfers.length > 0) {
      this.startTransfer();
    }
  }

  controlIn(packet) {
    const transfer = this.transfers[0];
    if (transfer === undefined) {
      return;
    }
    if (transfer.packet[0] & 0x80) {
      transfer.received.push(...packet); // the empty packet that ends it goes the other way: see serveOut
    } else if (packet.length === 0) {
      this.endTransfer();
    }
  }

  // --- endpoint buffers

  after(key, action) {
    let alarm = this.alarms.get(key);
    if (alarm === undefined) {
      alarm = { action, clock: null };
      alarm.clock = this.clock.createAlarm(() => alarm.action());
      this.alarms.set(key, alarm);
    }
    alarm.action = action;
    alarm.clock.schedule(PACKET_NANOS);
  }

  bufferControlWritten(offset, value) {
    if (offset < BUFFER_CONTROL || offset >= BUFFER_CONTROL_END || !(value & (AVAILABLE | (AVAILABLE << 16)))) {
      return;
    }
    const endpoint = (offset - BUFFER_CONTROL) >> 3;
    if (offset & 4) {
      this.armed.add(endpoint);
      this.serveOut(endpoint);
    } else {
      this.after(`in ${endpoint}`, () => this.takeIn(endpoint));
    }
  }

  bufferOf(endpoint, out) {
    return endpoint === 0 ? 0x100 : this.endpointControl(endpoint, out) & 0xffc0;
  }

  endpointControl(endpoint, out) {
    return this.registers.getUint32(8 * endpoint + (out ? 4 : 0), true);
  }

  // The board has a packet for us, or two.
  takeIn(endpoint) {
    const register = BUFFER_CONTROL + 8 * endpoint;
    let control = this.registers.getUint32(register, true);
    const halves = endpoint !== 0 && this.endpointControl(endpoint, false) & DOUBLE_BUFFERED ? 2 : 1;
    const packets = [];
    for (let half = 0; half < halves; half++) {
      const bits = control >>> (16 * half);
      if (bits & AVAILABLE) {
        const start = this.bufferOf(endpoint, false) + PACKET * half;
        packets.push(this.dpram.slice(start, start + (bits & LENGTH)));
        control &= ~((AVAILABLE | FULL) << (16 * half));
      }
    }
    this.registers.setUint32(register, control, true);
    this.usb.indicateBufferReady(endpoint, false);
    for (const packet of packets) {
      if (endpoint === 0) {
        this.controlIn(packet);
      } else if (endpoint === this.inEndpoint && packet.length > 0) {
        this.onData(packet);
      }
    }
  }

  // The board waits for a packet: give it one where there is one.
  serveOut(endpoint) {
    if (!this.armed.has(endpoint)) {
      return;
    }
    if (endpoint === 0 ? this.transfers.length > 0 : endpoint === this.outEndpoint && this.outBytes > 0) {
      this.after(`out ${endpoint}`, () => this.giveOut(endpoint));
    }
  }

  giveOut(endpoint) {
    if (!this.armed.has(endpoint)) {
      return;
    }
    const register = BUFFER_CONTROL + 8 * endpoint + 4;
    let control = this.registers.getUint32(register, true);
    let packet;
    let ends = false; // whether this is the empty packet that ends a control transfer
    if (endpoint === 0) {
      const transfer = this.transfers[0];
      if (transfer === undefined) {
        return;
      }
      ends = (transfer.packet[0] & 0x80) !== 0;
      packet = ends ? new Uint8Array(0) : transfer.data;
    } else {
      packet = this.nextPacket(Math.min(control & LENGTH, PACKET));
    }
    this.armed.delete(endpoint);
    this.dpram.set(packet, this.bufferOf(endpoint, true));
    control = (control & ~(AVAILABLE | LENGTH)) | FULL | packet.length;
    this.registers.setUint32(register, control, true);
    this.usb.indicateBufferReady(endpoint, true);
    if (ends) {
      this.endTransfer();
    }
  }

  nextPacket(limit) {
    const packet = new Uint8Array(Math.min(limit, this.outBytes));
    let at = 0;
    while (at < packet.length) {
      const chunk = this.outQueue[0];
      const part = chunk.subarray(0, packet.length - at);
      packet.set(part, at);
      at += part.length;
      if (part.length === chunk.length) {
        this.outQueue.shift();
      } else {
        this.outQueue[0] = chunk.subarray(part.length);
      }
    }
    this.outBytes -= packet.length;
    return packet;
  }
}
