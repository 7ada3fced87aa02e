"""Serves desktop notifications on the session bus, and prints each as a line of JSON. "ready" when it is there."""
import json, sys
import dbus, dbus.service
from dbus.mainloop.glib import DBusGMainLoop
from gi.repository import GLib

NAME = "org.freedesktop.Notifications"


class Server(dbus.service.Object):
    @dbus.service.method(NAME, in_signature="susssasa{sv}i", out_signature="u")
    def Notify(self, program, replaces, icon, summary, body, actions, hints, timeout):
        print(json.dumps({"program": program, "summary": summary, "body": body, "urgency": int(hints.get("urgency", -1))}), flush=True)
        return dbus.UInt32(1)

    @dbus.service.method(NAME, out_signature="as")
    def GetCapabilities(self):
        return ["body", "body-markup"]

    @dbus.service.method(NAME, out_signature="ssss")
    def GetServerInformation(self):
        return ("test", "test", "1", "1.2")


DBusGMainLoop(set_as_default=True)
bus = dbus.SessionBus()
held = dbus.service.BusName(NAME, bus)
server = Server(bus, "/org/freedesktop/Notifications")
print("ready", flush=True)
GLib.MainLoop().run()
