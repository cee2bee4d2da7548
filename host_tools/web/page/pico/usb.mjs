// The computer's end of the board's USB: rp2040js's serial port, which it finds among the descriptors.
//
// Two things are ours. rp2040js answers a board that is ready to receive at once, with no data, so that the board never
// sleeps; here a board without data waits, as it does on a cable. And rp2040js swaps the halves of a double-buffered
// transfer.

import { USBCDC } from './rp2040js/index.js';

const AVAILABLE = 1 << 10;
const FULL = 1 << 15;
const LENGTH = 0x3ff;
const PACKET = 64;
const BUFFER_CONTROL = 0x80; // registers of endpoint 0, in and out; the others follow

export class UsbSerial {
  // onData(bytes): the board has sent.
  constructor(rp2040, onData) {
    this.usb = rp2040.usbCtrl;
    this.dpram = rp2040.usbDPRAM;
    this.registers = rp2040.usbDPRAMView;
    this.dtr = false; // whether a program has the port open
    this.queue = new Uint8Array(0); // for the board, from before it has come up, too
    this.room = 0; // for so many the board waits
    this.cdc = new USBCDC(this.usb);
    this.cdc.onSerialData = (bytes) => bytes.length > 0 && onData(bytes);
    this.cdc.onDeviceConnected = () => this.sendLineState();
    this.usb.onEndpointRead = (endpoint, size) => {
      if (endpoint === this.cdc.outEndpoint) {
        this.room = Math.min(size, PACKET);
        this.serve();
      }
    };
    const updated = this.usb.DPRAMUpdated.bind(this.usb);
    this.usb.DPRAMUpdated = (offset, value) => {
      const endpoint = (offset - BUFFER_CONTROL) >> 3;
      if (endpoint === this.cdc.inEndpoint && !(offset & 4) && value & AVAILABLE && (value >>> 16) & AVAILABLE) {
        this.takeBoth(endpoint, offset, value);
      } else {
        updated(offset, value);
      }
    };
  }

  get ready() {
    return this.cdc.initialized;
  }

  // Give bytes to the board; it takes them when it wants.
  send(bytes) {
    const all = new Uint8Array(this.queue.length + bytes.length);
    all.set(this.queue);
    all.set(bytes, this.queue.length);
    this.queue = all;
    this.serve();
  }

  // A program opens or closes the port.
  setDtr(on) {
    this.dtr = on;
    if (!on) {
      this.queue = new Uint8Array(0);
    }
    if (this.ready) {
      this.sendLineState();
    }
  }

  sendLineState() {
    this.cdc.cdcSetControlLineState(this.dtr ? 3 : 0);
  }

  serve() {
    if (this.room > 0 && this.queue.length > 0) {
      this.usb.endpointReadDone(this.cdc.outEndpoint, this.queue.subarray(0, this.room));
      this.queue = this.queue.subarray(this.room);
      this.room = 0;
    }
  }

  // The board has two packets for us, one behind the other.
  takeBoth(endpoint, offset, value) {
    const start = this.registers.getUint32(8 * endpoint, true) & 0xffc0;
    const [first, second] = [value & LENGTH, (value >>> 16) & LENGTH];
    const bytes = new Uint8Array(first + second);
    bytes.set(this.dpram.subarray(start, start + first));
    bytes.set(this.dpram.subarray(start + PACKET, start + PACKET + second), first);
    this.registers.setUint32(offset, value & ~((AVAILABLE | FULL) * 0x10001), true);
    this.usb.indicateBufferReady(endpoint, false);
    this.usb.endpointWriteAlarms[endpoint].schedule(bytes, this.usb.writeDelayMicroseconds * 1000);
  }
}
