"""MACs as drkit wrote them before they covered the topic's id: they are read.

Their records are :data:`tests.support.flow_state.old_bytes.RECORDS`.
"""

from __future__ import annotations

from typing import Final

MACS: Final[dict[str, str]] = {
    "control-key": "029cfb658e00064430d8e2c4780a534ebe4e1b01dea4eafeb1cb0d9a17",
    "control": "029cfb658e00064430d8e2c4792180abd6abceda6d92340967304fd82c",
    "lease": "029cfb658e00064430d8e2c47a803a32d03d16e58d17a21d7056ec16a2",
    "standby/5ab0c3d9": "029cfb658e00064430d8e2c47bd145aeb376463c3c67ac4b5737be8db3",
    "producer-ids": "029cfb658e00064430d8e2c47c0920012b0fbbf8eb3f6ae530dfbef796",
    "producer-ids/bulk/4002": "029cfb658e00064430d8e2c47d70e64d71c8f4eb9d6a7cfebef9f91145",
    "offset-map": "029cfb658e00064430d8e2c47eb22c65102236b835f156e9ed5e1ca8bc",
    "flow": "029cfb658e00064430d8e2c47fa398a3dc118bfd147f824e38bcee9f3f",
    "former-sources": "029cfb658e00064430d8e2c480bcdb02479e7dfee661064ae0713ecc7d",
    "skips": "029cfb658e00064430d8e2c4819a7bfcb70aaec3e0d241dedfd43d0aac",
    "speed": "029cfb658e00064430d8e2c482bbfae2f357a66affbb821e3fe94a4dbc",
    "takeover/orders": "029cfb658e00064430d8e2c483f69556e5f2d8bf2ac21d7241f762bcec",
    "cut/orders": "029cfb658e00064430d8e2c4848be0cb3fb279b9ba0d6b7ccd304beee6",
    "cut/payments": "029cfb658e00064430d8e2c485ebe6065d0e5d08126f3d3dc32968760c",
    "tail/orders": "029cfb658e00064430d8e2c4867645573919a7123fca42773c67f5c3ca",
    "tail/payments": "029cfb658e00064430d8e2c4874d33b64269543319564475b76f30f23d",
    "incomplete/orders": "029cfb658e00064430d8e2c4881976a6e24ddc8b2379ced62fa8969d19",
    "held-settings/orders": "029cfb658e00064430d8e2c48994e6563a4d3e4e8de26b1e38a2b8a1fa",
    "unreplayed/orders/f00d00000001-5a5a5a5a": "029cfb658e00064430d8e2c48aefc2312d304747abc8f22d7288230d30",
    "unreplayed/payments/f00d00000001-5a5a5a5a": "029cfb658e00064430d8e2c48b6e3a0d80c357b6eb0572b4377bd271c1",
    "saved-tail/orders/f00d00000001-5a5a5a5a": "029cfb658e00064430d8e2c48c41367b952f3babea0ee6a571a394cb8e",
    "written/orders/0": "029cfb658e00064430d8e2c48d3e891c42a2a01a20629aa35ec9141573",
    "written/orders/2": "029cfb658e00064430d8e2c48e927cd6a409dae7c8b90f0f3061a1ba07",
    "return/orders": "029cfb658e00064430d8e2c48fab27624d2181ae7d995a6adf3d8a8898",
    "configuration": "029cfb658e00064430d8e2c4904ecf3fe8113f75ce85de7f619ddca192",
    "opposite/orders": "029cfb658e00064430d8e2c491a26424e42adfef1aede39c97cb6654f4",
    "return/payments": "029cfb658e00064430d8e2c49261d80496c36d119f82c2af0d6dceef9d",
    "role/planned": "029cfb658e00064430d8e2c493731902435c1b02d02abd9597947b2cd1",
    "topic/orders": "029cfb658e00064430d8e2c494608dd63ac978123547da3193c28a973f",
    "role/frozen": "029cfb658e00064430d8e2c49566178ab9558e478a13dffdf67de3dfb6",
    "role/orders": "029cfb658e00064430d8e2c496c98248940d0af449db1b6cdc9f262150",
    "opened": "029cfb658e00064430d8e2c497844a645889ed6d072dbd32570aebe817",
    "promotion": "029cfb658e00064430d8e2c4986437412c515c480d2d56535f72854833",
    "configs/orders": "029cfb658e00064430d8e2c49953ab49360245b10b1a74a1109902a5bb",
    "fence-sizes": "029cfb658e00064430d8e2c49a72ef7f2b37f324b2a2e48973181f8faa",
    "fence-acls": "029cfb658e00064430d8e2c49b8e2485350078fbd32ad60ee92f87e288",
    "guard-acls": "029cfb658e00064430d8e2c49c55d8c0eb6262a812e66722a267c8bd71",
    "acls": "029cfb658e00064430d8e2c49ddf7365a5b1b6f206759b2ff28e8105da",
    "checkpoints": "029cfb658e00064430d8e2c49ecb43860110bdd9253cfd24db03ee8234",
    "source-seen": "029cfb658e00064430d8e2c49f7f31c93ba19b7cbdf1668b3bb826e236",
    "fence-lift": "029cfb658e00064430d8e2c4a03ec8196b13b25f4ded84e378405dff2e",
    "fence-debt": "029cfb658e00064430d8e2c4a18798c9d53e2be412e1ef9a589785b627",
    "verified/orders/0": "029cfb658e00064430d8e2c4a2d45a9f2e6c93ab23254b6f7d671d373b",
    "event/source_recreated/orders/-1": "029cfb658e00064430d8e2c4a3893bf9ca069dedaaff37dd9d0baabddf",
    "event/resync/orders/0": "029cfb658e00064430d8e2c4a49f2323af5c3ba900e458dcfe2ab13f3f",
}
TOMBSTONE: Final = "029cfb658e00064430d8e2c4a58748b43ef6c642c270f6b0ef79e776d6"
"""Of the tombstone of `role/orders`."""
