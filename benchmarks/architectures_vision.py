"""Architectures of transformers, timm and torchvision that look at images."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from architectures import CLASSES, HEADS, PATCHES, PIXELS, STAGES, WIDTH, Architecture, hugging_face, installed
from tacit.train import freeze_batch_norm, replace_batch_norm

seer = partial(hugging_face, kind="pictures")
Mend = Callable[[nn.Module], Any]

SEERS = [
    seer("ViTForImageClassification", **PATCHES),
    seer("DeiTForImageClassification", **PATCHES),
    seer("BeitForImageClassification", **PATCHES, use_relative_position_bias=True),
    seer("Data2VecVisionForImageClassification", **PATCHES),
    seer("Dinov2ForImageClassification", **PATCHES),
    seer("ViTMSNForImageClassification", **PATCHES),
    seer("SwinForImageClassification", **STAGES, patch_size=4, window_size=4),
    seer("Swinv2ForImageClassification", **STAGES, patch_size=4, window_size=4),
    seer("ConvNextForImageClassification", hidden_sizes=[8, 8], depths=[1, 1], num_stages=2),
    seer("ConvNextV2ForImageClassification", hidden_sizes=[8, 8], depths=[1, 1], num_stages=2),
    seer("PoolFormerForImageClassification", hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1]),
    seer("SegformerForImageClassification", hidden_sizes=[8, 8], depths=[1, 1], num_encoder_blocks=2,
         num_attention_heads=[1, 2], sr_ratios=[2, 1], patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2]),
    seer("FocalNetForImageClassification", image_size=PIXELS, embed_dim=8, depths=[1, 1], hidden_sizes=[8, 16],
         focal_levels=[1, 1], focal_windows=[3, 3], patch_size=4),
    seer("PvtForImageClassification", image_size=PIXELS, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1],
         num_attention_heads=[1, 2, 2, 2], mlp_ratios=[2, 2, 2, 2]),
    seer("BitForImageClassification", embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1], num_groups=2),
]  # fmt: skip


def timm_model(name: str, mend: Mend | None = None, **extra: Any) -> Architecture:
    """A model of timm by its name; `mend` is called on it, for batch normalisation."""

    def make() -> nn.Module:
        import timm

        model = timm.create_model(name, pretrained=False, num_classes=CLASSES, **extra)
        return model if mend is None else mended(model, mend)

    return Architecture("timm", named(name, mend), "images", make)


def timm_class(path: str, mend: Mend | None = None, block: str = "", **extra: Any) -> Architecture:
    """A class of timm, "module.Class", for sizes that its named models do not take."""

    def make() -> nn.Module:
        module = importlib.import_module(f"timm.models.{path.split('.')[0]}")
        parts = {"block_layer": getattr(module, block)} if block else {}
        model = getattr(module, path.split(".")[1])(num_classes=CLASSES, **parts, **extra)
        return model if mend is None else mended(model, mend)

    return Architecture("timm", named(f"{path}, {block}" if block else path, mend), "images", make)


def vision_model(name: str, build: Callable[[Any], nn.Module], mend: Mend | None = None, kind: str = "images") -> Any:
    """A model of torchvision, built from the module `torchvision.models`."""

    def make() -> nn.Module:
        model = build(torchvision_models())
        return model if mend is None else mended(model, mend)

    return Architecture("torchvision", named(name, mend), kind, make)


def named(name: str, mend: Mend | None) -> str:
    return name if mend is None else f"{name}, {'group' if mend is replace_batch_norm else 'frozen batch'} norm"


def mended(model: nn.Module, mend: Mend) -> nn.Module:
    found = mend(model)
    return found if isinstance(found, nn.Module) else model


def torchvision_models() -> Any:
    """`torchvision.models`; where its compiled operators do not fit this torch, empty ones stand in for them."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torchvision.models

    return torchvision.models


def stand_ins() -> None:
    """Declare torchvision's operators, which its package wants at import and no model here calls."""
    if not installed("torchvision") or hasattr(torch.ops.torchvision, "nms"):
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    KEPT.append(library)


KEPT: list[Any] = []
SMALL_VIT = {"img_size": PIXELS, "patch_size": 8, "embed_dim": WIDTH, "depth": 2, "num_heads": HEADS}
MIXER = {"img_size": PIXELS, "patch_size": 8, "embed_dim": WIDTH, "num_blocks": 2}
GROUP, FROZEN = replace_batch_norm, freeze_batch_norm
TIMM = [
    timm_model("vit_tiny_patch16_224", **SMALL_VIT),
    timm_model("deit_tiny_distilled_patch16_224", **SMALL_VIT),
    timm_model("beit_base_patch16_224", **SMALL_VIT),
    timm_model("eva02_tiny_patch14_224", **SMALL_VIT),
    timm_model("cait_xxs24_224", **SMALL_VIT),
    timm_model("xcit_nano_12_p16_224", GROUP, **{**SMALL_VIT, "patch_size": 16}),
    timm_class("mlp_mixer.MlpMixer", **MIXER),
    timm_class("mlp_mixer.MlpMixer", block="ResBlock", **MIXER, mlp_ratio=4),
    timm_model("swin_tiny_patch4_window7_224", img_size=PIXELS, window_size=4, embed_dim=8, depths=(2, 2),
               num_heads=(1, 2)),
    timm_model("convnext_atto", dims=(8, 8, 16, 16), depths=(1, 1, 1, 1)),
    timm_class("convmixer.ConvMixer", FROZEN, dim=WIDTH, depth=2),
    timm_model("poolformer_s12", embed_dims=(8, 8, 16, 16), layers=(1, 1, 1, 1)),
    timm_model("resnet10t", GROUP, channels=(8, 8, 16, 16)),
    timm_model("resnet10t", FROZEN, channels=(8, 8, 16, 16)),
    timm_model("regnetx_002", GROUP),
    timm_model("efficientnet_b0", GROUP),
    timm_model("efficientnet_b0", FROZEN),
    timm_model("mobilenetv3_small_050", GROUP),
    timm_model("ghostnet_050", FROZEN, drop_rate=0.0),
    timm_model("hardcorenas_a", FROZEN),
    timm_model("levit_128s", FROZEN, img_size=PIXELS),
    timm_model("pit_ti_224", img_size=PIXELS),
    timm_model("edgenext_xx_small", dims=(8, 16, 16, 16), depths=(1, 1, 1, 1)),
    timm_model("nf_regnet_b0"),
    timm_model("repvgg_a0", FROZEN),
    timm_model("tresnet_m", GROUP),
]  # fmt: skip


def _resnet(models: Any) -> nn.Module:
    return models.resnet.ResNet(models.resnet.Bottleneck, [1, 1, 1, 1], num_classes=CLASSES, width_per_group=8)


def _densenet(models: Any) -> nn.Module:
    return models.DenseNet(growth_rate=4, block_config=(2, 2), num_init_features=8, num_classes=CLASSES)


def _vit(models: Any) -> nn.Module:
    return models.VisionTransformer(PIXELS, 8, 2, HEADS, WIDTH, 32, num_classes=CLASSES)


def _swin(models: Any) -> nn.Module:
    return models.SwinTransformer([4, 4], 8, [1, 1], [1, 2], [4, 4], num_classes=CLASSES, stochastic_depth_prob=0.0)


def _convnext(models: Any) -> nn.Module:
    setting = models.convnext.CNBlockConfig
    return models.ConvNeXt([setting(8, 16, 1), setting(16, None, 1)], num_classes=CLASSES)


def _maxvit(models: Any) -> nn.Module:
    return models.MaxVit((PIXELS, PIXELS), 8, 4, [8, 8], [1, 1], 8, stochastic_depth_prob=0.0, num_classes=CLASSES)


def _video(models: Any) -> nn.Module:
    video = models.video.resnet
    return video.VideoResNet(video.BasicBlock, [video.Conv3DSimple] * 4, [1, 1, 1, 1], video.BasicStem, CLASSES)


TORCHVISION = [
    vision_model("resnet", _resnet, GROUP),
    vision_model("resnet", _resnet, FROZEN),
    vision_model("densenet", _densenet, GROUP),
    vision_model("squeezenet1_1", lambda models: models.squeezenet1_1(num_classes=CLASSES, dropout=0.0)),
    vision_model("mobilenet_v2", lambda m: m.mobilenet_v2(num_classes=CLASSES, width_mult=0.25, dropout=0.0), GROUP),
    vision_model("mobilenet_v3_small", lambda m: m.mobilenet_v3_small(num_classes=CLASSES, dropout=0.0), FROZEN),
    vision_model("shufflenet_v2_x0_5", lambda models: models.shufflenet_v2_x0_5(num_classes=CLASSES), FROZEN),
    vision_model("mnasnet0_5", lambda models: models.mnasnet0_5(num_classes=CLASSES, dropout=0.0), FROZEN),
    vision_model("vision transformer", _vit),
    vision_model("swin transformer", _swin),
    vision_model("convnext", _convnext),
    vision_model("maxvit", _maxvit, FROZEN),
    vision_model("video resnet", _video, GROUP, kind="video"),
]
VISION: list[Architecture] = SEERS + TIMM + TORCHVISION
